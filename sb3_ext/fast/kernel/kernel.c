/* The fast path for multi-layer perceptrons: acting, evaluating rollouts, and whole updates, in one call each.
 *
 * Actor and critic are separate networks of linear layers with tanh or ReLU between them. All arrays come from Python
 * as buffers, whose type and size are checked before anything is read. Parameters stay torch's own: each call packs
 * them into the layout below, and an update writes them back. sb3_ext/fast/kernel/__init__.py is the interface. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <time.h>

#include "shapes.h"

#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define FN(name) CONCAT(name, ISA)

#define ISA base
#define LANES 4
#define ROWS 4
#ifdef __aarch64__
#define VECS 4
#else
#define VECS 2
#endif
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define ISA avx2
#define LANES 8
#define ROWS 6
#define VECS 2
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,fma")
#endif
#define ISA avx512
#define LANES 16
#define ROWS 4
#define VECS 4
#include "core.h"
#undef ISA
#undef LANES
#undef ROWS
#undef VECS
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#ifndef _WIN32
#define HAS_THREADS
#include <pthread.h>
#include <stdatomic.h>
#endif
/* About 20 microseconds */
#define SPINS 1000
#ifdef __x86_64__
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE()
#endif

#include "loss.h"
#include "network.h"
#include "update.h"

/* Seconds between looks at whether Ctrl-C was pressed */
#define SIGNAL_INTERVAL 0.1

typedef struct {
    PyObject_HEAD
    const Core *core;
    int is_one_hot, is_updating;
    Head head;
    Shape actor, critic;
    Update update;
    /* For acting and evaluating: packed parameters, and the tensors that they were packed from */
    float *packed[2], *unpacked[2];
    Work work[2];
} Kernel;

/* ---- Buffers ---- */

#define MAX_VIEWS (8 * (2 * MAX_LAYERS + 1) + 16)

typedef struct {
    Py_buffer of[MAX_VIEWS];
    int n;
} Views;

static void release(Views *views) {
    while (views->n) PyBuffer_Release(&views->of[--views->n]);
}

/* The memory of an array of n numbers: kind is 'f' for float32, 'd' for float64, 'i' for int64. NULL: an error is set. */
static void *take(Views *views, PyObject *object, const char *name, char kind, long n, int writable) {
    Py_buffer *view = &views->of[views->n];
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags)) return 0;
    views->n++;
    const char *format = view->format ? view->format : "B";
    const int fits = kind == 'i' ? view->itemsize == 8 && strchr("lq", *format) && *format
                                 : view->itemsize == (kind == 'f' ? 4 : 8) && *format == kind;
    if (!fits || format[1]) {
        PyErr_Format(PyExc_TypeError, "%s has elements of type %s, not %s", name, format,
                     kind == 'i'   ? "int64"
                     : kind == 'f' ? "float32"
                                   : "float64");
        return 0;
    }
    if (n >= 0 && view->len / view->itemsize != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd elements, not %ld", name, view->len / view->itemsize, n);
        return 0;
    }
    return view->buf;
}

/* The memory of a network's tensors, in the order of `tensor_size` */
static int take_tensors(Views *views, PyObject *list, const char *name, const Shape *shape, float **tensors,
                        int writable) {
    const long n = n_tensors(shape);
    if (!PyList_Check(list) || PyList_Size(list) != n) {
        PyErr_Format(PyExc_ValueError, "%s must be a list of %ld arrays", name, n);
        return 0;
    }
    for (long i = 0; i < n; i++) {
        tensors[i] = take(views, PyList_GetItem(list, i), name, 'f', tensor_size(shape, i), writable);
        if (!tensors[i]) return 0;
    }
    return 1;
}

#define N_ELEMENTS(views, i) ((long)((views)->of[i].len / (views)->of[i].itemsize))

/* Actions of the rollout's samples */
static int take_actions(const Kernel *self, Views *views, PyObject *actions, Rollout *rollout) {
    const int is_choice = self->head.kind != GAUSSIAN;
    void *taken = take(views, actions, "actions", is_choice ? 'i' : 'f', rollout->n * self->head.n_parts, 0);
    if (!taken) return 0;
    if (!is_choice) {
        rollout->actions = taken;
        return 1;
    }
    rollout->choices = taken;
    for (long i = 0; i < rollout->n; i++)
        for (long part = 0; part < self->head.n_parts; part++) {
            const int64_t choice = rollout->choices[i * self->head.n_parts + part];
            const long size = self->head.kind == BERNOULLI ? 2 : self->head.sizes[part];
            if (choice < 0 || choice >= size) {
                PyErr_Format(PyExc_ValueError, "action %ld is outside 0 to %ld", (long)choice, size - 1);
                return 0;
            }
        }
    return 1;
}

/* Observations, whose number is that of the rollout's samples, and actions if given */
static int take_samples(const Kernel *self, Views *views, PyObject *observations, PyObject *actions, Rollout *rollout) {
    const long width = self->actor.width[0];
    const int first = views->n;
    void *rows = take(views, observations, "observations", self->is_one_hot ? 'i' : 'f', -1, 0);
    if (!rows) return 0;
    rollout->n = N_ELEMENTS(views, first) / (self->is_one_hot ? 1 : width);
    if (!self->is_one_hot && rollout->n * width != N_ELEMENTS(views, first)) {
        PyErr_Format(PyExc_ValueError, "observations must have rows of %ld numbers", width);
        return 0;
    }
    if (self->is_one_hot) {
        rollout->ones = rows;
        for (long i = 0; i < rollout->n; i++)
            if (rollout->ones[i] < 0 || rollout->ones[i] >= width) {
                PyErr_Format(PyExc_ValueError, "observation %ld is outside 0 to %ld", (long)rollout->ones[i], width - 1);
                return 0;
            }
    } else
        rollout->rows = rows;
    return !actions || take_actions(self, views, actions, rollout);
}

/* ---- Acting and evaluating ---- */

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
        given = take(&views, noise, "noise", 'f', rollout.n * head->n_outputs, 0);
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
                memcpy((float *)chosen + (start + r) * head->n_outputs, outputs + r * padded(head->n_outputs),
                       sizeof(float) * (size_t)head->n_outputs);
        else
            choose(head, log_std, outputs, padded(head->n_outputs), given, start, rows, rollout.n,
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
        for (long r = 0; r < rows; r++) {
            const long i = (start + r) * head->n_parts;
            float entropy;
            head_evaluate(head, outputs + r * padded(head->n_outputs), packed[0] + self->actor.log_std,
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

/* ---- Updating ---- */

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

/* ---- Policies whose outputs torch computes ---- */

/* Outputs of the actor, whose number is that of the rollout's samples, and the logarithms of standard deviations */
static float *take_outputs(const Kernel *self, Views *views, PyObject *outputs, PyObject *log_std, Rollout *rollout,
                           float **deviations) {
    const int first = views->n;
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
    actor_loss(head, &loss, &rollout, &batch, 0, n, outputs, width, log_std, self->work[0].scratch, of_outputs,
               of_log_std, metrics);
    critic_loss(&loss, &rollout, &batch, 0, n, values, 1, of_values, metrics);
    finish_metrics(&loss, metrics, n);
    release(&views);
    Py_RETURN_NONE;
fail:
    release(&views);
    return 0;
}

/* ---- The type ---- */

static int read_widths(PyObject *tuple, const char *name, long *widths, int *n_layers) {
    const Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;
    if (n < 2 || n > MAX_LAYERS + 1) {
        PyErr_Format(PyExc_ValueError, "%s must be a tuple of 2 to %d widths", name, MAX_LAYERS + 1);
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        widths[i] = PyLong_AsLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred()) return 0;
        if (widths[i] < 1 || widths[i] > 1 << 20) {
            PyErr_Format(PyExc_ValueError, "a width of %ld in %s is not between 1 and %d", widths[i], name, 1 << 20);
            return 0;
        }
    }
    *n_layers = (int)n - 1;
    return 1;
}

static const Core *find_core(const char *isa) {
    const int any = !strcmp(isa, "auto");
#ifdef __x86_64__
    __builtin_cpu_init();
    if ((any || !strcmp(isa, "avx512")) && __builtin_cpu_supports("avx512f")) return &core_avx512;
    if ((any || !strcmp(isa, "avx2")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &core_avx2;
#endif
    return any || !strcmp(isa, "base") ? &core_base : 0;
}

static int kernel_init(Kernel *self, PyObject *args, PyObject *kwargs) {
    PyObject *actor, *critic, *sizes;
    const char *isa = "auto";
    int activation, head, one_hot, n_layers[2];
    long widths[2][MAX_LAYERS + 1], n_outputs = 0;
    (void)kwargs;
    if (self->core) {
        PyErr_SetString(PyExc_RuntimeError, "a kernel can't be initialised twice");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OOiiOp|s:Kernel", &actor, &critic, &activation, &head, &sizes, &one_hot, &isa))
        return -1;
    const Py_ssize_t n_parts = PyTuple_Check(sizes) ? PyTuple_Size(sizes) : 0;
    if (activation < TANH || activation > RELU || head < CATEGORICAL || head > BERNOULLI || n_parts < 1 ||
        n_parts > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "no such activation, or distribution of actions");
        return -1;
    }
    if (!read_widths(actor, "actor", widths[0], &n_layers[0]) || !read_widths(critic, "critic", widths[1], &n_layers[1]))
        return -1;
    if (widths[0][0] != widths[1][0] || widths[1][n_layers[1]] != 1) {
        PyErr_SetString(PyExc_ValueError, "actor and critic must have the same inputs, and the critic one output");
        return -1;
    }
    self->head.sizes = calloc((size_t)n_parts, sizeof(long));
    if (!self->head.sizes) goto no_memory;
    for (Py_ssize_t i = 0; i < n_parts; i++) {
        const long size = PyLong_AsLong(PyTuple_GetItem(sizes, i));
        if (PyErr_Occurred()) return -1;
        if (size < 1 || size > 1 << 20) {
            PyErr_Format(PyExc_ValueError, "an action can't have %ld choices", size);
            return -1;
        }
        self->head.sizes[i] = size;
        n_outputs += size;
    }
    if (n_outputs != widths[0][n_layers[0]] || (head != CATEGORICAL && n_outputs != n_parts)) {
        PyErr_Format(PyExc_ValueError, "the actor has %ld outputs, and its actions need %ld",
                     widths[0][n_layers[0]], n_outputs);
        return -1;
    }
    self->head.kind = head;
    self->head.n_parts = (long)n_parts;
    self->head.n_outputs = n_outputs;
    self->is_one_hot = one_hot;
    shape_init(&self->actor, widths[0], n_layers[0], activation, head == GAUSSIAN ? n_outputs : 0);
    shape_init(&self->critic, widths[1], n_layers[1], activation, 0);
    for (int i = 0; i < 2; i++) {
        const Shape *shape = i ? &self->critic : &self->actor;
        self->packed[i] = new_array(shape->size);
        self->unpacked[i] = new_array(shape->size);
        if (!self->packed[i] || !self->unpacked[i] || !work_init(&self->work[i], shape, &self->head)) goto no_memory;
    }
    if (!half_init(&self->update.actor, &self->actor, &self->head) ||
        !half_init(&self->update.critic, &self->critic, &self->head))
        goto no_memory;
    self->core = find_core(isa);
    if (!self->core) PyErr_Format(PyExc_ValueError, "this processor does not have %s", isa);
    return self->core ? 0 : -1;
no_memory:
    PyErr_NoMemory();
    return -1;
}

static void kernel_dealloc(Kernel *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(self->head.sizes);
    for (int i = 0; i < 2; i++) {
        free(self->packed[i]);
        free(self->unpacked[i]);
        work_free(&self->work[i]);
    }
    half_free(&self->update.actor);
    half_free(&self->update.critic);
    release_object(self);
    Py_DECREF(type);
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

static PyMethodDef methods[] = {
    {"act", (PyCFunction)kernel_act, METH_VARARGS, "act(params, observations, noise, out)"},
    {"evaluate", (PyCFunction)kernel_evaluate, METH_VARARGS,
     "evaluate(actor, critic, observations, actions, values, log_probs)"},
    {"choose", (PyCFunction)kernel_choose, METH_VARARGS, "choose(outputs, log_std, noise, out)"},
    {"log_probs", (PyCFunction)kernel_log_probs, METH_VARARGS, "log_probs(outputs, log_std, actions, out)"},
    {"loss", (PyCFunction)kernel_loss, METH_VARARGS,
     "loss(outputs, values, log_std, actions, columns, of_outputs, of_values, of_log_std, metrics, loss)"},
    {"update", (PyCFunction)kernel_update, METH_VARARGS,
     "update(actor, critic, observations, actions, columns, orders, bounds, metrics, count, n_epochs, loss, limit, "
     "optimizer, two_threads)"},
    {0, 0, 0, 0}};

static PyType_Slot slots[] = {{Py_tp_init, kernel_init},
                              {Py_tp_dealloc, kernel_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "Kernel(actor, critic, activation, head, sizes, one_hot, isa='auto')"},
                              {0, 0}};

static PyType_Spec spec = {"sb3_ext.fast.kernel._kernel.Kernel", sizeof(Kernel), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"gae", kernel_gae, METH_VARARGS,
     "gae(rewards, values, episode_starts, last_values, last_dones, advantages, returns, n_steps, n_envs, gamma, "
     "lambda)"},
    {0, 0, 0, 0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", 0, -1, functions, 0, 0, 0, 0};

PyMODINIT_FUNC PyInit__kernel(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return 0;
    PyObject *type = PyType_FromSpec(&spec);
    if (!type || PyModule_AddObjectRef(module, "Kernel", type)) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return 0;
    }
    Py_DECREF(type);
    PyModule_AddIntConstant(module, "N_METRICS", N_METRICS);
    return module;
}
