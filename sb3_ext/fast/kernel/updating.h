/* The call that makes a whole update. */

/* Seconds between looks at whether Ctrl-C was pressed */
#define SIGNAL_INTERVAL 0.1

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs all epochs without the GIL; returns whether Ctrl-C, or another signal, ended them */
static int run_epochs(Update *u) {
    int interrupted = 0;
    double checked = now();
    Partner *partner = 0;
    if (u->rollback) back_up(u);
#ifdef HAS_THREADS
    Partner second = {.update = u, .goes_on = 1};
    if (u->two_threads && !u->rollback && !pthread_create(&second.thread, 0, run_critic, &second)) partner = &second;
#endif
    PyThreadState *state = PyEval_SaveThread();
    for (long epoch = 0; epoch < u->n_epochs && !u->stopped && !interrupted; epoch++) {
        run_epoch(u, epoch, partner);
        if (now() - checked > SIGNAL_INTERVAL) {
            PyEval_RestoreThread(state);
            interrupted = PyErr_CheckSignals() != 0;
            state = PyEval_SaveThread();
            checked = now();
        }
    }
#ifdef HAS_THREADS
    if (partner) {
        if (u->stopped || interrupted) end(partner);
        pthread_join(second.thread, 0);
    }
#endif
    PyEval_RestoreThread(state);
    return interrupted;
}

/* The order of the samples in each epoch, and the bounds of its minibatches */
static int take_order(Update *u, Views *views, PyObject *orders, PyObject *bounds) {
    const int first = views->n;
    u->orders = take(views, orders, "orders", 'i', -1, 0);
    u->bounds = u->orders ? take(views, bounds, "bounds", 'i', -1, 0) : 0;
    if (!u->bounds) return 0;
    const long n = N_ELEMENTS(views, first);
    u->n_bounds = N_ELEMENTS(views, first + 1);
    int is_right = u->n_epochs > 0 && n > 0 && n % u->n_epochs == 0 && u->n_bounds > 1;
    u->n_order = is_right ? n / u->n_epochs : 0;
    is_right = is_right && u->bounds[0] == 0 && u->bounds[u->n_bounds - 1] == u->n_order;
    for (long b = 0; is_right && b + 1 < u->n_bounds; b++) is_right = u->bounds[b] < u->bounds[b + 1];
    if (!is_right) {
        PyErr_SetString(PyExc_ValueError, "bounds must rise from 0 to the number of samples in an epoch");
        return 0;
    }
    for (long i = 0; i < n; i++)
        if (u->orders[i] < 0 || u->orders[i] >= u->rollout.n) {
            PyErr_Format(PyExc_ValueError, "index %ld is outside 0 to %ld", (long)u->orders[i], u->rollout.n - 1);
            return 0;
        }
    return 1;
}

enum { PARAMS, GRADIENTS, FIRST, SECOND, N_LISTS };

static PyObject *kernel_update(Kernel *self, PyObject *args) {
    PyObject *lists[2][N_LISTS], *observations, *actions, *columns, *orders, *bounds, *metrics, *count;
    float *tensors[2][N_LISTS][2 * MAX_LAYERS + 1];
    static const char *const names[N_LISTS] = {"params", "gradients", "first moments", "second moments"};
    Views views = {.n = 0};
    Update *u = &self->update;
    PyObject *result = 0;
    if (self->is_updating) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is updating this policy");
        return 0;
    }
    memset(&u->rollout, 0, sizeof u->rollout);
    if (!PyArg_ParseTuple(
            args, "(OOOO)(OOOO)OOOOOOOl(ipppddddd)(pppd)(idddd)p:update", &lists[0][0], &lists[0][1], &lists[0][2],
            &lists[0][3], &lists[1][0], &lists[1][1], &lists[1][2], &lists[1][3], &observations, &actions, &columns,
            &orders, &bounds, &metrics, &count, &u->n_epochs, &u->loss.kind, &u->loss.normalize, &u->loss.huber,
            &u->loss.separate, &u->loss.clip, &u->loss.clip_vf, &u->loss.ent_coef, &u->loss.vf_coef, &u->loss.max_norm,
            &u->limit_before_steps, &u->limit_after_epochs, &u->rollback, &u->limit, &u->optimizer.kind,
            &u->optimizer.lr, &u->optimizer.beta1, &u->optimizer.beta2, &u->optimizer.eps, &u->two_threads))
        return 0;
    if (u->optimizer.kind < ADAM || u->optimizer.kind > NO_OPTIMIZER || u->loss.kind < PPO ||
        u->loss.kind > POLICY_GRADIENT) {
        PyErr_SetString(PyExc_ValueError, "no such optimizer, or loss");
        return 0;
    }
    /* How many of the lists the optimizer changes */
    int used[N_LISTS] = {1, 1, u->optimizer.kind == ADAM, u->optimizer.kind != NO_OPTIMIZER};
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < N_LISTS; i++)
            if (used[i] && !take_tensors(&views, lists[half][i], names[i], half ? &self->critic : &self->actor,
                                         tensors[half][i], 1))
                goto end;
    if (!take_samples(self, &views, observations, actions, &u->rollout)) goto end;
    u->rollout.columns = take(&views, columns, "columns", 'f', u->rollout.n * N_COLUMNS, 0);
    if (!u->rollout.columns || !take_order(u, &views, orders, bounds)) goto end;
    const long n_batches = (u->n_bounds - 1) * u->n_epochs;
    u->metrics = take(&views, metrics, "metrics", 'd', n_batches * N_METRICS, 1);
    double *n_steps = u->metrics ? take(&views, count, "count", 'd', 1, 1) : 0;
    if (!n_steps) goto end;
    memset(u->metrics, 0, sizeof(double) * (size_t)(n_batches * N_METRICS));
    u->core = self->core;
    u->head = &self->head;
    u->n_minibatches = u->n_steps_here = u->stopped = 0;
    u->last_kl = 0;
    u->n_steps = *n_steps;
    u->actor.scale = u->critic.scale = 1.0f;
    for (int h = 0; h < 2; h++) {
        Half *half = h ? &u->critic : &u->actor;
        float *packed[N_LISTS] = {half->params, half->gradients, half->first, half->second};
        if (u->rollback && !half->backup && !(half->backup = new_array(3 * half->shape->size))) {
            PyErr_NoMemory();
            goto end;
        }
        for (int i = 0; i < N_LISTS; i++)
            if (used[i] && i != GRADIENTS) pack(half->shape, packed[i], tensors[h][i]);
    }
    self->is_updating = 1;
    const int interrupted = run_epochs(u);
    self->is_updating = 0;
    for (int h = 0; h < 2; h++) {
        Half *half = h ? &u->critic : &u->actor;
        float *packed[N_LISTS] = {half->params, half->gradients, half->first, half->second};
        for (int i = 0; i < N_LISTS; i++)
            if (used[i]) unpack(half->shape, packed[i], i == GRADIENTS ? half->scale : 1.0f, tensors[h][i]);
    }
    *n_steps = u->n_steps;
    if (!interrupted)
        result = Py_BuildValue("(llOd)", u->n_minibatches, u->n_steps_here, u->stopped ? Py_True : Py_False,
                               u->last_kl);
end:
    release(&views);
    return result;
}
