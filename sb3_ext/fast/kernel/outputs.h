/* Calls for policies whose networks torch computes, such as those for images. */

/* Outputs of the actor, whose number is that of the rollout's samples, and the logarithms of standard deviations */
static float *take_outputs(const Kernel *self, Views *views, PyObject *outputs, PyObject *log_std, Rollout *rollout,
                           float **deviations) {
    const int first = views->n;
    if (self->head.kind == GSDE) {
        PyErr_SetString(PyExc_ValueError, "gSDE needs the kernel's own network");
        return 0;
    }
    float *taken = take(views, outputs, "outputs", 'f', -1, 0);
    if (!taken) return 0;
    rollout->n = N_ELEMENTS(views, first) / self->head.n_outputs;
    if (rollout->n < 1 || rollout->n * self->head.n_outputs != N_ELEMENTS(views, first)) {
        PyErr_Format(PyExc_ValueError, "outputs must have rows of %ld numbers", self->head.n_outputs);
        return 0;
    }
    *deviations = take(views, log_std, "log_std", 'f', self->actor.n_log_std, 0);
    return *deviations ? taken : 0;
}

static PyObject *kernel_choose(Kernel *self, PyObject *args) {
    PyObject *outputs, *log_std, *noise, *out;
    Views views = {.n = 0};
    Rollout rollout = {0};
    float *deviations, *given = 0;
    if (!PyArg_ParseTuple(args, "OOOO:choose", &outputs, &log_std, &noise, &out)) return 0;
    if (self->head.kind == BERNOULLI) {
        PyErr_SetString(PyExc_ValueError, "Bernoulli variates are drawn in Python");
        return 0;
    }
    const float *z = take_outputs(self, &views, outputs, log_std, &rollout, &deviations);
    const int is_choice = self->head.kind == CATEGORICAL;
    void *chosen = z ? take(&views, out, "out", is_choice ? 'i' : 'f', rollout.n * self->head.n_parts, 1) : 0;
    if (chosen && noise != Py_None) given = take(&views, noise, "noise", 'f', rollout.n * self->head.n_outputs, 0);
    const int is_right = chosen && (given || noise == Py_None);
    if (is_right)
        choose(&self->head, deviations, z, self->head.n_outputs, given, 0, rollout.n, rollout.n, is_choice ? chosen : 0,
               is_choice ? 0 : chosen);
    release(&views);
    if (!is_right) return 0;
    Py_RETURN_NONE;
}

static PyObject *kernel_log_probs(Kernel *self, PyObject *args) {
    PyObject *outputs, *log_std, *actions, *out;
    Views views = {.n = 0};
    Rollout rollout = {0};
    float *deviations;
    if (!PyArg_ParseTuple(args, "OOOO:log_probs", &outputs, &log_std, &actions, &out)) return 0;
    const float *z = take_outputs(self, &views, outputs, log_std, &rollout, &deviations);
    const int is_right = z && take_actions(self, &views, actions, &rollout);
    float *log_probs = is_right ? take(&views, out, "log_probs", 'f', rollout.n, 1) : 0;
    for (long r = 0; log_probs && r < rollout.n; r++) {
        const long i = r * self->head.n_parts;
        float entropy;
        head_evaluate(&self->head, z + r * self->head.n_outputs, deviations, rollout.choices ? rollout.choices + i : 0,
                      rollout.actions ? rollout.actions + i : 0, self->work[0].scratch, &log_probs[r], &entropy);
    }
    release(&views);
    if (!log_probs) return 0;
    Py_RETURN_NONE;
}

/* The loss on a minibatch, with its gradients with respect to outputs and values, and its metrics */
static PyObject *kernel_loss(Kernel *self, PyObject *args) {
    PyObject *arrays[9];
    Views views = {.n = 0};
    Rollout rollout = {0};
    Loss loss;
    float *log_std;
    const Head *head = &self->head;
    const long width = head->n_outputs, n_log_std = self->actor.n_log_std;
    if (!PyArg_ParseTuple(args, "OOOOOOOOO(ipppddddd):loss", &arrays[0], &arrays[1], &arrays[2], &arrays[3], &arrays[4],
                          &arrays[5], &arrays[6], &arrays[7], &arrays[8], &loss.kind, &loss.normalize, &loss.huber,
                          &loss.separate, &loss.clip, &loss.clip_vf, &loss.ent_coef, &loss.vf_coef, &loss.max_norm))
        return 0;
    const float *outputs = take_outputs(self, &views, arrays[0], arrays[2], &rollout, &log_std);
    const long n = rollout.n;
    float *values = outputs ? take(&views, arrays[1], "values", 'f', n, 0) : 0;
    if (!values || !take_actions(self, &views, arrays[3], &rollout)) goto fail;
    rollout.columns = take(&views, arrays[4], "columns", 'f', n * N_COLUMNS, 0);
    float *of_outputs = rollout.columns ? take(&views, arrays[5], "gradient of outputs", 'f', n * width, 1) : 0;
    float *of_values = of_outputs ? take(&views, arrays[6], "gradient of values", 'f', n, 1) : 0;
    float *of_log_std = of_values ? take(&views, arrays[7], "gradient of log_std", 'f', n_log_std, 1) : 0;
    double *metrics = of_log_std ? take(&views, arrays[8], "metrics", 'd', N_METRICS, 1) : 0;
    if (!metrics) goto fail;
    const Minibatch batch = minibatch_of(&rollout, 0, n, loss.normalize);
    memset(metrics, 0, sizeof(double) * N_METRICS);
    memset(of_log_std, 0, sizeof(float) * (size_t)n_log_std);
    actor_loss(head, &loss, &rollout, &batch, 0, n, outputs, width, log_std, 0, self->work[0].scratch, of_outputs,
               of_log_std, metrics);
    critic_loss(&loss, &rollout, &batch, 0, n, values, 1, of_values, metrics);
    finish_metrics(&loss, metrics, n);
    release(&views);
    Py_RETURN_NONE;
fail:
    release(&views);
    return 0;
}
