/* gSDE: noise that depends on the last hidden layer, through a matrix that is drawn every few steps. A parameter has
 * the logarithms of that matrix's standard deviations; those of the actions follow from them and from the layer. */

/* Added to variances, as in SB3 */
#define SDE_EPSILON 1e-6f

static inline int is_gaussian(const Head *head) { return head->kind == GAUSSIAN || head->kind == GSDE; }

/* The last hidden layer of a row, and its units */
static inline const float *latent_of(const Shape *shape, const Work *work, long r) {
    return work->outputs[shape->n_layers - 2] + r * shape->stride[shape->n_layers - 1];
}

static inline long n_latent(const Shape *shape) { return shape->width[shape->n_layers - 1]; }

/* Logarithms of the actions' standard deviations in a block of rows; `step` floats from one row to the next */
static const float *deviations(const Head *head, const Shape *shape, const float *params, Work *work, long rows,
                               long *step) {
    const long n = head->n_outputs;
    const float *log_std = params + shape->log_std;
    *step = 0;
    if (head->kind != GSDE) return log_std;
    *step = n;
    for (long i = 0; i < shape->n_log_std; i++) work->variances[i] = expf(2.0f * log_std[i]);
    for (long r = 0; r < rows; r++) {
        const float *latent = latent_of(shape, work, r);
        float *out = work->deviations + r * n;
        for (long j = 0; j < n; j++) out[j] = SDE_EPSILON;
        for (long i = 0; i < n_latent(shape); i++) {
            const float square = latent[i] * latent[i];
            for (long j = 0; j < n; j++) out[j] += square * work->variances[i * n + j];
        }
        for (long j = 0; j < n; j++) out[j] = 0.5f * logf(out[j]);
    }
    return work->deviations;
}

/* Adds to the parameter's gradients, given those with respect to `deviations`. The layer gets none, as in SB3. */
static void deviations_back(const Head *head, const Shape *shape, const Work *work, long rows, float *of_params) {
    const long n = head->n_outputs;
    float *gradients = of_params + shape->log_std, *of_squares = work->of_deviations;
    if (head->kind != GSDE) return;
    for (long r = 0; r < rows * n; r++) of_squares[r] *= expf(-2.0f * work->deviations[r]);
    for (long r = 0; r < rows; r++) {
        const float *latent = latent_of(shape, work, r);
        for (long i = 0; i < n_latent(shape); i++) {
            const float square = latent[i] * latent[i];
            for (long j = 0; j < n; j++) gradients[i * n + j] += square * work->variances[i * n + j] * of_squares[r * n + j];
        }
    }
}

/* The actor's outputs and the noise of the given matrices, one for each row; without them, the outputs */
static void choose_sde(const Head *head, const Shape *shape, const Work *work, const float *matrices, long start,
                       long rows, float *actions) {
    const long n = head->n_outputs, size = n_latent(shape) * n;
    for (long r = 0; r < rows; r++) {
        const float *latent = latent_of(shape, work, r), *matrix = matrices ? matrices + (start + r) * size : 0;
        float *out = actions + (start + r) * n;
        memcpy(out, work->outputs[shape->n_layers - 1] + r * shape->stride[shape->n_layers], sizeof(float) * (size_t)n);
        for (long i = 0; matrix && i < n_latent(shape); i++)
            for (long j = 0; j < n; j++) out[j] += latent[i] * matrix[i * n + j];
    }
}
