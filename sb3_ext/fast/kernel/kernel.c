/* The fast path for multi-layer perceptrons: acting, evaluating rollouts, and whole updates, in one call each.
 *
 * Actor and critic are separate networks of linear layers with tanh or ReLU between them. All arrays come from Python
 * as buffers, whose type and size are checked before anything is read. Parameters stay torch's own: each call packs
 * them into the layout of shapes.h, and an update writes them back. _kernel.pyi has the calls. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <time.h>

#include "shapes.h"
#include "simd.h"

#include "loss.h"
#include "network.h"
#include "update.h"

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

#include "buffers.h"

#include "acting.h"
#include "outputs.h"
#include "updating.h"

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
    if (activation < TANH || activation > RELU || head < CATEGORICAL || head > GSDE || n_parts < 1 ||
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
    if (head == GSDE && n_layers[0] < 2) {
        PyErr_SetString(PyExc_ValueError, "gSDE needs a hidden layer");
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
    const long n_log_std = head == GSDE ? widths[0][n_layers[0] - 1] * n_outputs : head == GAUSSIAN ? n_outputs : 0;
    shape_init(&self->actor, widths[0], n_layers[0], activation, n_log_std);
    shape_init(&self->critic, widths[1], n_layers[1], activation, 0);
    for (int i = 0; i < 2; i++) {
        const Shape *shape = i ? &self->critic : &self->actor;
        self->packed[i] = new_array(shape->size);
        self->unpacked[i] = new_array(shape->size);
        if (!self->packed[i] || !self->unpacked[i] || !work_init(&self->work[i], shape, &self->head, 0)) goto no_memory;
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
