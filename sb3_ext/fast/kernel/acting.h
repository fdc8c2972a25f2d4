/* Calls that choose actions and evaluate them. */

/* Packs a network's parameters if they are not those of the last call */
static const float *packed_params(Kernel *self, int which, float *const *tensors) {
    const Shape *shape = which ? &self->critic : &self->actor;
    float *seen = self->unpacked[which];
    int is_same = 1;
    for (long i = 0; i < n_tensors(shape); i++) {
        const size_t bytes = sizeof(float) * (size_t)tensor_size(shape, i);
        if (memcmp(seen, tensors[i], bytes)) {
            memcpy(seen, tensors[i], bytes);
            is_same = 0;
        }
        seen += tensor_size(shape, i);
    }
    if (!is_same) pack(shape, self->packed[which], tensors);
    return self->packed[which];
}

/* Chooses actions from a block of outputs: with the noise that torch drew, or the most likely ones without */
static void choose(const Head *head, const float *log_std, const float *outputs, long width, const float *noise,
                   long start, long rows, long n, int64_t *choices, float *actions) {
    for (long r = 0; r < rows; r++) {
        const float *z = outputs + r * width;
        if (head->kind == GAUSSIAN) {
            const long at = (start + r) * head->n_outputs;
            for (long j = 0; j < head->n_outputs; j++)
                actions[at + j] = noise ? z[j] + noise[at + j] * expf(log_std[j]) : z[j];
            continue;
        }
        /* Each part's noise is an array of its own, of exponential variates, as torch.multinomial draws them */
        const float *times = noise;
        for (long part = 0; part < head->n_parts; part++) {
            const long size = head->sizes[part];
            long best = 0;
            float most = -INFINITY;
            for (long j = 0; j < size; j++) {
                const float x = noise ? z[j] - logf(times[(start + r) * size + j]) : z[j];
                /* NaN wins, as in argmax */
                if (x > most || (x != x && most == most)) {
                    most = x;
                    best = j;
                }
            }
            choices[(start + r) * head->n_parts + part] = best;
            z += size;
            if (noise) times += n * size;
        }
    }
}

static PyObject *kernel_act(Kernel *self, PyObject *args) {
    PyObject *params, *observations, *noise, *out;
    Views views = {.n = 0};
    Rollout rollout = {0};
    float *tensors[2 * MAX_LAYERS + 1];
    const Head *head = &self->head;
    const Shape *shape = &self->actor;
    if (!PyArg_ParseTuple(args, "OOOO:act", &params, &observations, &noise, &out)) return 0;
    if (!take_tensors(&views, params, "params", shape, tensors, 0) ||
        !take_samples(self, &views, observations, 0, &rollout))
        goto fail;
    const int is_choice = head->kind == CATEGORICAL;
    /* Bernoulli variates are drawn in Python, from the outputs */
    const long n_out = rollout.n * (is_choice ? head->n_parts : head->n_outputs);
    float *given = 0;
    void *chosen = take(&views, out, "out", is_choice ? 'i' : 'f', n_out, 1);
    if (!chosen) goto fail;
    if (noise != Py_None) {
        const long size = head->kind == GSDE ? shape->n_log_std : head->n_outputs;
        given = take(&views, noise, "noise", 'f', rollout.n * size, 0);
        if (!given) goto fail;
    }
    const float *packed = packed_params(self, 0, tensors), *log_std = packed + shape->log_std;
    for (long start = 0; start < rollout.n; start += BLOCK) {
        const long rows = rollout.n - start < BLOCK ? rollout.n - start : BLOCK;
        const Inputs inputs = gather(shape, &self->work[0], &rollout, 0, start, rows);
        self->core->forward(shape, packed, &self->work[0], &inputs, rows);
        const float *outputs = self->work[0].outputs[shape->n_layers - 1];
        if (head->kind == BERNOULLI)
            for (long r = 0; r < rows; r++)
                memcpy((float *)chosen + (start + r) * head->n_outputs, outputs + r * stride(head->n_outputs),
                       sizeof(float) * (size_t)head->n_outputs);
        else if (head->kind == GSDE)
            choose_sde(head, shape, &self->work[0], given, start, rows, chosen);
        else
            choose(head, log_std, outputs, stride(head->n_outputs), given, start, rows, rollout.n,
                   is_choice ? chosen : 0, is_choice ? 0 : chosen);
    }
    release(&views);
    Py_RETURN_NONE;
fail:
    release(&views);
    return 0;
}

static PyObject *kernel_evaluate(Kernel *self, PyObject *args) {
    PyObject *params[2], *observations, *actions, *out[2];
    Views views = {.n = 0};
    Rollout rollout = {0};
    float *tensors[2][2 * MAX_LAYERS + 1];
    if (!PyArg_ParseTuple(args, "OOOOOO:evaluate", &params[0], &params[1], &observations, &actions, &out[0], &out[1]))
        return 0;
    if (!take_tensors(&views, params[0], "actor", &self->actor, tensors[0], 0) ||
        !take_tensors(&views, params[1], "critic", &self->critic, tensors[1], 0) ||
        !take_samples(self, &views, observations, actions == Py_None ? 0 : actions, &rollout))
        goto fail;
    float *values = take(&views, out[0], "values", 'f', rollout.n, 1);
    float *log_probs = 0;
    if (!values) goto fail;
    if (actions != Py_None) {
        log_probs = take(&views, out[1], "log_probs", 'f', rollout.n, 1);
        if (!log_probs) goto fail;
    }
    const Head *head = &self->head;
    const float *packed[2] = {packed_params(self, 0, tensors[0]), packed_params(self, 1, tensors[1])};
    for (long start = 0; start < rollout.n; start += BLOCK) {
        const long rows = rollout.n - start < BLOCK ? rollout.n - start : BLOCK;
        const Inputs inputs = gather(&self->critic, &self->work[1], &rollout, 0, start, rows);
        self->core->forward(&self->critic, packed[1], &self->work[1], &inputs, rows);
        for (long r = 0; r < rows; r++)
            values[start + r] = self->work[1].outputs[self->critic.n_layers - 1][r * PADDING];
        if (!log_probs) continue;
        self->core->forward(&self->actor, packed[0], &self->work[0], &inputs, rows);
        const float *outputs = self->work[0].outputs[self->actor.n_layers - 1];
        long step;
        const float *log_std = deviations(head, &self->actor, packed[0], &self->work[0], rows, &step);
        for (long r = 0; r < rows; r++) {
            const long i = (start + r) * head->n_parts;
            float entropy;
            head_evaluate(head, outputs + r * stride(head->n_outputs), log_std + r * step,
                          rollout.choices ? rollout.choices + i : 0, rollout.actions ? rollout.actions + i : 0,
                          self->work[0].scratch, &log_probs[start + r], &entropy);
        }
    }
    release(&views);
    Py_RETURN_NONE;
fail:
    release(&views);
    return 0;
}

/* Generalized Advantage Estimation, as SB3's RolloutBuffer computes it */
static PyObject *kernel_gae(PyObject *module, PyObject *args) {
    PyObject *arrays[7];
    static const char *const names[7] = {"rewards",    "values",  "episode_starts", "last_values",
                                         "last_dones", "advantages", "returns"};
    float *x[7];
    double gamma, lambda;
    long n_steps, n_envs;
    Views views = {.n = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOOOlldd:gae", &arrays[0], &arrays[1], &arrays[2], &arrays[3], &arrays[4],
                          &arrays[5], &arrays[6], &n_steps, &n_envs, &gamma, &lambda))
        return 0;
    if (n_steps < 1 || n_envs < 1) {
        PyErr_SetString(PyExc_ValueError, "steps and environments must be at least 1");
        return 0;
    }
    for (int i = 0; i < 7; i++) {
        const long n = i == 3 || i == 4 ? n_envs : n_steps * n_envs;
        x[i] = take(&views, arrays[i], names[i], 'f', n, i > 4);
        if (!x[i]) {
            release(&views);
            return 0;
        }
    }
    for (long env = 0; env < n_envs; env++) {
        float next_value = x[3][env], goes_on = 1.0f - x[4][env], advantage = 0;
        for (long i = (n_steps - 1) * n_envs + env; i >= 0; i -= n_envs) {
            const float delta = x[0][i] + (float)gamma * next_value * goes_on - x[1][i];
            advantage = delta + (float)(gamma * lambda) * goes_on * advantage;
            x[5][i] = advantage;
            x[6][i] = advantage + x[1][i];
            next_value = x[1][i];
            goes_on = 1.0f - x[2][i];
        }
    }
    release(&views);
    Py_RETURN_NONE;
}
