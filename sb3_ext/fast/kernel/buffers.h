/* Arrays from Python: their types, sizes and indices are checked before anything is read. */

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
    const int is_choice = !is_gaussian(&self->head);
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
