/* What the kernel's parts share: the shape of a network, the memory it works in, and a rollout. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TANH, RELU };
enum { CATEGORICAL, GAUSSIAN, BERNOULLI, GSDE };
enum { PPO, POLICY_GRADIENT };
/* NO_OPTIMIZER: the gradients are for Python to step with */
enum { ADAM, RMS_PROP, NO_OPTIMIZER };

#define MAX_LAYERS 16
/* Floats in a cache line: rows of matrices start on one */
#define PADDING 16
/* Minibatches pass through the networks in blocks of so many rows, which stay in the processor's caches */
#define BLOCK 128
/* Matrices are transposed in squares of this size */
#define SQUARE 16
/* Rows of a matrix that are so many floats apart are copied side by side to multiply so many rows with them, in panels
 * of a size that stays in the first cache */
#define FAR 256
#define MANY 32
#define PANEL 8192

/* A multi-layer perceptron. Its parameters are one array: the weights of each layer with a row per input, its biases,
 * and after the last layer the logarithms of the standard deviations, if any. The numbers are places in that array. */
typedef struct {
    int n_layers, activation;
    /* Units of each layer, with padding, and floats from one row to the next */
    long width[MAX_LAYERS + 1], padded[MAX_LAYERS + 1], stride[MAX_LAYERS + 1];
    long weights[MAX_LAYERS], biases[MAX_LAYERS];
    long log_std, n_log_std;
    long size;
} Shape;

/* Memory for a block of rows: each layer's outputs, gradients of two layers in turn, and turned weights */
typedef struct {
    float *outputs[MAX_LAYERS], *deltas[2], *turned[MAX_LAYERS];
    float *rows, *scratch;
    /* gSDE's, with their gradients, and the squares of its parameter */
    float *deviations, *of_deviations, *variances;
    int64_t *ones;
} Work;

/* A block of observations: rows of floats, or the positions of the ones in one-hot rows */
typedef struct {
    const float *rows;
    const int64_t *ones;
} Inputs;

typedef struct {
    int kind;
    double lr, beta1, beta2, eps;
} Optimizer;

typedef struct {
    void (*forward)(const Shape *, const float *, Work *, const Inputs *, long);
    void (*backward)(const Shape *, Work *, const Inputs *, long, float *);
    double (*square_sum)(const float *, long);
    void (*adam)(float *, const float *, float *, float *, long, float, float, float, const Optimizer *);
    void (*rms_prop)(float *, const float *, float *, long, float, float, const Optimizer *);
} Core;

/* The distribution of actions: parts of the actor's outputs, one for each number of an action */
typedef struct {
    int kind;
    long n_parts, n_outputs;
    long *sizes;
} Head;

/* One row per sample. Columns: old value, old log-probability, advantage, return. */
typedef struct {
    long n;
    const float *rows;
    const int64_t *ones;
    const int64_t *choices;
    const float *actions;
    const float *columns;
} Rollout;

enum { OLD_VALUE, OLD_LOG_PROB, ADVANTAGE, RETURN, N_COLUMNS };

typedef struct {
    int kind, normalize, huber, separate;
    double clip, clip_vf, ent_coef, vf_coef, max_norm;
} Loss;

/* What is logged of a minibatch */
enum { KL, CLIP_FRACTION, WEIGHT, POLICY_LOSS, VALUE_LOSS, ENTROPY_LOSS, TOTAL_LOSS, ACTOR_NORM, CRITIC_NORM, NORM, N_METRICS };

static inline long padded(long n) { return (n + PADDING - 1) / PADDING * PADDING; }

/* Rows that are a power of two apart would all compete for the same lines of the caches */
static inline long stride(long n) { return padded(n) + (padded(n) >= 256 && padded(n) % 128 == 0 ? PADDING : 0); }
