/* The kernel's arithmetic on whole vectors. kernel.c includes this file once for each instruction set, with
 *
 *     FN(name)   the name of a function for this set
 *     LANES      floats in a vector
 *     ROWS VECS  rows and vectors of the tile of a product that fits the registers
 *
 * All rows of matrices are padded with zeros to a multiple of PADDING floats and start at such a boundary. */

typedef float FN(vec) __attribute__((vector_size(4 * LANES), may_alias));
#define VEC FN(vec)
#define AT(p) (*(VEC *)(p))
#define READ(p) (*(const VEC *)(p))

#include "product.h"

/* tanh x as x P(x²) / Q(x²), fitted to a relative error of 2e-8 on [-9, 9], of which float keeps 3e-7. Beyond, it is
 * exactly 1, as in torch: its derivative must be 0 there, because Adam makes large steps of the smallest gradients. */
static void FN(tanh_all)(float *x, long n) {
    for (long i = 0; i < n; i++) {
        const float y = x[i], t = y * y;
        const float p =
            (((1.3317534138e-08f * t + 2.0582446855e-05f) * t + 3.4939760230e-03f) * t + 1.3379670365e-01f) * t +
            0.99999997919f;
        const float q =
            (((7.7614104525e-07f * t + 3.2829938707e-04f) * t + 2.5870855693e-02f) * t + 4.6712985680e-01f) * t + 1.0f;
        float z = y * p / q;
        z = 1.0f < z ? 1.0f : z;
        z = -1.0f > z ? -1.0f : z;
        z = 9.0f < y ? 1.0f : z;
        x[i] = -9.0f > y ? -1.0f : z;
    }
}

static void FN(relu_all)(float *x, long n) {
    for (long i = 0; i < n; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

/* Gradients with respect to an activation's outputs y become those with respect to its inputs */
static void FN(tanh_back)(float *gradient, const float *y, long n) {
    for (long i = 0; i < n; i++) gradient[i] *= 1.0f - y[i] * y[i];
}

static void FN(relu_back)(float *gradient, const float *y, long n) {
    for (long i = 0; i < n; i++) gradient[i] = y[i] > 0.0f ? gradient[i] : 0.0f;
}

static void FN(forward)(const Shape *shape, const float *params, Work *work, const Inputs *inputs, long n) {
    for (int l = 0; l < shape->n_layers; l++) {
        float *out = work->outputs[l];
        const long padded = shape->padded[l + 1], row = shape->stride[l + 1];
        const float *weights = params + shape->weights[l], *biases = params + shape->biases[l];
        if (l == 0 && inputs->ones)
            for (long r = 0; r < n; r++)
                for (long j = 0; j < padded; j++) out[r * row + j] = weights[inputs->ones[r] * row + j] + biases[j];
        else
            FN(product)(n, padded, shape->width[l], l ? work->outputs[l - 1] : inputs->rows,
                        l ? shape->stride[l] : shape->width[0], 1, weights, row, out, row, biases, 0);
        if (l + 1 < shape->n_layers) (shape->activation == TANH ? FN(tanh_all) : FN(relu_all))(out, n * row);
    }
}

/* The parameters' gradients, given those of the outputs in work->deltas[n_layers % 2]; added to what is there */
static void FN(backward)(const Shape *shape, Work *work, const Inputs *inputs, long n, float *gradients) {
    for (int l = shape->n_layers - 1; l >= 0; l--) {
        const float *delta = work->deltas[(l + 1) % 2];
        const long padded = shape->padded[l + 1], row = shape->stride[l + 1];
        float *of_weights = gradients + shape->weights[l], *of_biases = gradients + shape->biases[l];
        if (l == 0 && inputs->ones)
            for (long r = 0; r < n; r++)
                for (long j = 0; j < padded; j++) of_weights[inputs->ones[r] * row + j] += delta[r * row + j];
        else
            FN(product)(shape->width[l], padded, n, l ? work->outputs[l - 1] : inputs->rows, 1,
                        l ? shape->stride[l] : shape->width[0], delta, row, of_weights, row, 0, 1);
        for (long r = 0; r < n; r++)
            for (long j = 0; j < padded; j++) of_biases[j] += delta[r * row + j];
        if (l == 0) break;
        float *below = work->deltas[l % 2];
        FN(product)(n, shape->padded[l], shape->width[l + 1], delta, row, 1, work->turned[l], shape->stride[l], below,
                    shape->stride[l], 0, 0);
        (shape->activation == TANH ? FN(tanh_back) : FN(relu_back))(below, work->outputs[l - 1], n * shape->stride[l]);
    }
}

static double FN(square_sum)(const float *x, long n) {
    VEC sums = {0};
    double total = 0;
    for (long i = 0; i < n; i += LANES) sums += READ(x + i) * READ(x + i);
    for (int i = 0; i < LANES; i++) total += sums[i];
    return total;
}

/* Adam as in torch: `rate` and `root` are the learning rate and the root of the second moment's, corrected for bias */
static void FN(adam)(float *restrict params, const float *restrict gradients, float *restrict first,
                     float *restrict second, long n, float scale, float rate, float root, const Optimizer *o) {
    const float b1 = 1.0f - (float)o->beta1, b2 = (float)o->beta2, c2 = (float)(1.0 - o->beta2), eps = (float)o->eps;
    for (long i = 0; i < n; i++) {
        const float g = gradients[i] * scale;
        const float m = first[i] + b1 * (g - first[i]);
        const float v = b2 * second[i] + c2 * g * g;
        first[i] = m;
        second[i] = v;
        params[i] -= rate * m / (sqrtf(v) / root + eps);
    }
}

/* SB3's RMSpropTFLike: eps is under the root, and the mean of squares starts at 1 */
static void FN(rms_prop)(float *restrict params, const float *restrict gradients, float *restrict second, long n,
                         float scale, float rate, const Optimizer *o) {
    const float alpha = (float)o->beta2, rest = (float)(1.0 - o->beta2), eps = (float)o->eps;
    for (long i = 0; i < n; i++) {
        const float g = gradients[i] * scale;
        const float v = alpha * second[i] + rest * g * g;
        second[i] = v;
        params[i] -= rate * g / sqrtf(v + eps);
    }
}

static const Core FN(core) = {FN(forward), FN(backward), FN(square_sum), FN(adam), FN(rms_prop)};

#undef VEC
#undef AT
#undef READ
