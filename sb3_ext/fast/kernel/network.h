/* A network's memory: torch's parameters packed into one array and back, and the workspace. */

/* Torch keeps a layer's weights with a row per output: [w0, b0, w1, b1, …, log_std] */
static long n_tensors(const Shape *shape) { return 2L * shape->n_layers + (shape->n_log_std > 0); }

static long tensor_size(const Shape *shape, long i) {
    const long l = i / 2;
    if (l == shape->n_layers) return shape->n_log_std;
    return i % 2 ? shape->width[l + 1] : shape->width[l] * shape->width[l + 1];
}

/* In squares: rows of a wide matrix are in different pages, and a processor finds only so many at a time. It waits less
 * for reads from far apart than for writes. */
static void transpose(long rows, long cols, const float *from, long from_row, float *to, long to_row, float scale) {
    for (long i = 0; i < rows; i += SQUARE)
        for (long j = 0; j < cols; j += SQUARE) {
            const long i_end = i + SQUARE < rows ? i + SQUARE : rows, j_end = j + SQUARE < cols ? j + SQUARE : cols;
            for (long jj = j; jj < j_end; jj++)
                for (long ii = i; ii < i_end; ii++) to[jj * to_row + ii] = scale * from[ii * from_row + jj];
        }
}

static void pack(const Shape *shape, float *packed, float *const *tensors) {
    for (int l = 0; l < shape->n_layers; l++) {
        const long in = shape->width[l], out = shape->width[l + 1];
        transpose(out, in, tensors[2 * l], in, packed + shape->weights[l], shape->stride[l + 1], 1.0f);
        memcpy(packed + shape->biases[l], tensors[2 * l + 1], sizeof(float) * (size_t)out);
    }
    if (shape->n_log_std)
        memcpy(packed + shape->log_std, tensors[2 * shape->n_layers], sizeof(float) * (size_t)shape->n_log_std);
}

static void unpack(const Shape *shape, const float *packed, float scale, float *const *tensors) {
    for (int l = 0; l < shape->n_layers; l++) {
        const long in = shape->width[l], out = shape->width[l + 1];
        transpose(in, out, packed + shape->weights[l], shape->stride[l + 1], tensors[2 * l], in, scale);
        for (long i = 0; i < out; i++) tensors[2 * l + 1][i] = scale * packed[shape->biases[l] + i];
    }
    for (long i = 0; i < shape->n_log_std; i++) tensors[2 * shape->n_layers][i] = scale * packed[shape->log_std + i];
}

/* Transposes the weights of all layers but the first, for `backward` */
static void turn(const Shape *shape, const float *params, Work *work) {
    for (int l = 1; l < shape->n_layers; l++)
        transpose(shape->width[l], shape->width[l + 1], params + shape->weights[l], shape->stride[l + 1],
                  work->turned[l], shape->stride[l], 1.0f);
}

static void shape_init(Shape *shape, const long *widths, int n_layers, int activation, long n_log_std) {
    long place = 0;
    shape->n_layers = n_layers;
    shape->activation = activation;
    for (int l = 0; l <= n_layers; l++) {
        shape->width[l] = widths[l];
        shape->padded[l] = padded(widths[l]);
        shape->stride[l] = stride(widths[l]);
    }
    for (int l = 0; l < n_layers; l++) {
        shape->weights[l] = place;
        place += shape->width[l] * shape->stride[l + 1];
        shape->biases[l] = place;
        place += shape->padded[l + 1];
    }
    shape->log_std = place;
    shape->n_log_std = n_log_std;
    shape->size = place + padded(n_log_std);
}

/* Zeroed, at the start of a cache line; NULL when there is no memory */
static void *new_array(long n) {
    const size_t bytes = sizeof(float) * (size_t)padded(n > 0 ? n : 1);
    void *array = aligned_alloc(4 * PADDING, bytes);
    if (array) memset(array, 0, bytes);
    return array;
}

static void work_free(Work *work) {
    for (int l = 0; l < MAX_LAYERS; l++) {
        free(work->outputs[l]);
        free(work->turned[l]);
    }
    free(work->deltas[0]);
    free(work->deltas[1]);
    free(work->rows);
    free(work->scratch);
    free(work->deviations);
    free(work->of_deviations);
    free(work->variances);
    free(work->ones);
    memset(work, 0, sizeof *work);
}

/* `learns`: whether `backward` will be called */
static int work_init(Work *work, const Shape *shape, const Head *head, int learns) {
    long widest = 0;
    int ok = 1;
    for (int l = 0; l < shape->n_layers; l++) {
        const long width = shape->stride[l + 1];
        widest = width > widest ? width : widest;
        ok &= (work->outputs[l] = new_array(BLOCK * width)) != 0;
        ok &= l == 0 || !learns || (work->turned[l] = new_array(shape->width[l + 1] * shape->stride[l])) != 0;
    }
    for (int i = 0; i < 2; i++) ok &= (work->deltas[i] = new_array(BLOCK * widest)) != 0;
    ok &= (work->rows = new_array(BLOCK * shape->width[0])) != 0;
    ok &= (work->ones = new_array(2 * BLOCK)) != 0;
    if (head->kind == GSDE) {
        ok &= (work->deviations = new_array(BLOCK * head->n_outputs)) != 0;
        ok &= (work->of_deviations = new_array(BLOCK * head->n_outputs)) != 0;
        ok &= (work->variances = new_array(shape->n_log_std)) != 0;
    }
    ok &= (work->scratch = new_array(head->n_outputs + 2 * head->n_parts)) != 0;
    return ok;
}

/* The observations of some samples of a rollout, or those from `start` on where indices is NULL */
static Inputs gather(const Shape *shape, Work *work, const Rollout *rollout, const int64_t *indices, long start,
                     long n) {
    const long width = shape->width[0];
    Inputs inputs = {rollout->rows ? rollout->rows + start * width : 0, rollout->ones ? rollout->ones + start : 0};
    if (!indices) return inputs;
    if (rollout->ones) {
        for (long r = 0; r < n; r++) work->ones[r] = rollout->ones[indices[start + r]];
        inputs.ones = work->ones;
    } else {
        for (long r = 0; r < n; r++)
            memcpy(work->rows + r * width, rollout->rows + indices[start + r] * width, sizeof(float) * (size_t)width);
        inputs.rows = work->rows;
    }
    return inputs;
}
