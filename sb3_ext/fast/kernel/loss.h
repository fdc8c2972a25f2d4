/* Distributions of actions, and the losses of actor and critic with their gradients, for a block of rows. */

#include "sde.h"

#define HALF_LOG_2PI 0.91893853320467274178f

/* Log-probability and entropy of one action, given the actor's outputs. Leaves in `scratch` what `head_back` needs. */
static void head_evaluate(const Head *head, const float *z, const float *log_std, const int64_t *choice,
                          const float *action, float *scratch, float *log_prob, float *entropy) {
    float lp = 0, h = 0;
    if (head->kind == CATEGORICAL) {
        for (long part = 0; part < head->n_parts; part++) {
            const long n = head->sizes[part];
            float most = z[0], total = 0, mean = 0;
            for (long j = 1; j < n; j++) most = z[j] > most ? z[j] : most;
            for (long j = 0; j < n; j++) {
                scratch[j] = expf(z[j] - most);
                total += scratch[j];
            }
            const float log_total = logf(total);
            for (long j = 0; j < n; j++) {
                scratch[j] /= total;
                mean += scratch[j] * (z[j] - most - log_total);
            }
            lp += z[choice[part]] - most - log_total;
            h -= mean;
            /* The gradient of the entropy needs that of its part */
            scratch[n] = most + log_total;
            scratch[n + 1] = -mean;
            z += n;
            scratch += n + 2;
        }
    } else if (is_gaussian(head)) {
        for (long j = 0; j < head->n_outputs; j++) {
            scratch[j] = (action[j] - z[j]) * expf(-log_std[j]);
            lp -= 0.5f * scratch[j] * scratch[j] + log_std[j] + HALF_LOG_2PI;
            h += log_std[j] + HALF_LOG_2PI + 0.5f;
        }
    } else {
        for (long j = 0; j < head->n_outputs; j++) {
            const float softplus = (z[j] > 0 ? z[j] : 0) + log1pf(expf(-fabsf(z[j])));
            scratch[j] = 1.0f / (1.0f + expf(-z[j]));
            lp += (choice[j] ? z[j] : 0) - softplus;
            h += softplus - z[j] * scratch[j];
        }
    }
    *log_prob = lp;
    *entropy = h;
}

/* Gradient with respect to the outputs, given those with respect to log-probability and entropy */
static void head_back(const Head *head, const float *z, const float *log_std, const int64_t *choice,
                      const float *scratch, float of_log_prob, float of_entropy, float *delta, float *of_log_std) {
    if (head->kind == CATEGORICAL) {
        for (long part = 0; part < head->n_parts; part++) {
            const long n = head->sizes[part];
            const float log_total = scratch[n], h = scratch[n + 1];
            for (long j = 0; j < n; j++)
                delta[j] = -scratch[j] * (of_log_prob + of_entropy * (z[j] - log_total + h));
            delta[choice[part]] += of_log_prob;
            z += n;
            delta += n;
            scratch += n + 2;
        }
    } else if (is_gaussian(head)) {
        for (long j = 0; j < head->n_outputs; j++) {
            delta[j] = of_log_prob * scratch[j] * expf(-log_std[j]);
            of_log_std[j] += of_log_prob * (scratch[j] * scratch[j] - 1.0f) + of_entropy;
        }
    } else {
        for (long j = 0; j < head->n_outputs; j++) {
            const float p = scratch[j];
            delta[j] = of_log_prob * ((choice[j] ? 1.0f : 0.0f) - p) - of_entropy * z[j] * p * (1.0f - p);
        }
    }
}

/* A minibatch, and what its advantages are to be shifted and divided by */
typedef struct {
    /* NULL: all samples in order */
    const int64_t *indices;
    long n;
    float shift, divisor;
} Minibatch;

static inline long sample_of(const Minibatch *batch, long i) { return batch->indices ? (long)batch->indices[i] : i; }

static Minibatch minibatch_of(const Rollout *rollout, const int64_t *indices, long n, int normalize) {
    Minibatch batch = {indices, n, 0.0f, 1.0f};
    if (normalize && n > 1) {
        double mean = 0, squares = 0;
        for (long i = 0; i < n; i++) mean += rollout->columns[sample_of(&batch, i) * N_COLUMNS + ADVANTAGE];
        mean /= (double)n;
        for (long i = 0; i < n; i++) {
            const double d = rollout->columns[sample_of(&batch, i) * N_COLUMNS + ADVANTAGE] - mean;
            squares += d * d;
        }
        batch.shift = (float)mean;
        batch.divisor = (float)(sqrt(squares / (double)(n - 1)) + 1e-8);
    }
    return batch;
}

/* Gradients with respect to the outputs, of which each row takes `width` floats, and to the standard deviations, which
 * are `step` floats apart; and sums over the minibatch for the metrics */
static void actor_loss(const Head *head, const Loss *loss, const Rollout *rollout, const Minibatch *batch, long start,
                       long rows, const float *outputs, long width, const float *log_std, long step, float *scratch,
                       float *deltas, float *of_log_std, double *sums) {
    const float low = (float)(1.0 - loss->clip), high = (float)(1.0 + loss->clip), n = (float)batch->n;
    const float of_entropy = (float)(-loss->ent_coef / (double)batch->n);
    memset(deltas, 0, sizeof(float) * (size_t)(rows * width));
    for (long r = 0; r < rows; r++) {
        const long i = sample_of(batch, start + r);
        const float *columns = rollout->columns + i * N_COLUMNS, *z = outputs + r * width;
        const int64_t *choice = rollout->choices ? rollout->choices + i * head->n_parts : 0;
        const float *action = rollout->actions ? rollout->actions + i * head->n_parts : 0;
        float log_prob, entropy, of_log_prob;
        head_evaluate(head, z, log_std + r * step, choice, action, scratch, &log_prob, &entropy);
        const float advantage = (columns[ADVANTAGE] - batch->shift) / batch->divisor;
        const float log_ratio = log_prob - columns[OLD_LOG_PROB], ratio = expf(log_ratio);
        sums[KL] += (ratio - 1.0f) - log_ratio;
        sums[ENTROPY_LOSS] -= entropy;
        if (loss->kind == PPO) {
            const float clipped = ratio < low ? low : ratio > high ? high : ratio;
            const float gain = advantage * ratio, clipped_gain = advantage * clipped;
            sums[CLIP_FRACTION] += fabsf(ratio - 1.0f) > (float)loss->clip;
            sums[POLICY_LOSS] -= clipped_gain < gain ? clipped_gain : gain;
            of_log_prob = clipped_gain < gain ? 0.0f : -gain / n;
        } else {
            const float weight = ratio > 1.0f ? 1.0f : ratio;
            sums[WEIGHT] += weight;
            sums[POLICY_LOSS] -= weight * advantage * log_prob;
            of_log_prob = -weight * advantage / n;
        }
        head_back(head, z, log_std + r * step, choice, scratch, of_log_prob, of_entropy, deltas + r * width,
                  of_log_std + r * step);
    }
}

static void critic_loss(const Loss *loss, const Rollout *rollout, const Minibatch *batch, long start, long rows,
                        const float *outputs, long width, float *deltas, double *sums) {
    const float limit = (float)loss->clip_vf, factor = (float)(loss->vf_coef / (double)batch->n);
    memset(deltas, 0, sizeof(float) * (size_t)(rows * width));
    for (long r = 0; r < rows; r++) {
        const float *columns = rollout->columns + sample_of(batch, start + r) * N_COLUMNS;
        float value = outputs[r * width];
        int inside = 1;
        if (limit >= 0) {
            const float change = value - columns[OLD_VALUE];
            inside = !(change < -limit || change > limit);
            value = columns[OLD_VALUE] + (change < -limit ? -limit : change > limit ? limit : change);
        }
        const float error = value - columns[RETURN];
        float gradient = 2.0f * error;
        if (loss->huber) {
            gradient = error < -1.0f ? -1.0f : error > 1.0f ? 1.0f : error;
            sums[VALUE_LOSS] += gradient * (error - 0.5f * gradient);
        } else
            sums[VALUE_LOSS] += error * error;
        deltas[r * width] = inside ? gradient * factor : 0.0f;
    }
}
