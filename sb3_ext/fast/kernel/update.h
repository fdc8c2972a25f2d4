/* An update: epochs of minibatches, each with one step of the optimizer, and a limit for the KL divergence. */

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

/* Actor or critic while it is updated */
typedef struct {
    const Shape *shape;
    float *params, *gradients, *first, *second, *backup;
    Work work;
    double norm;
    /* Of the last minibatch's gradients, to clip their norm */
    float scale;
} Half;

typedef struct {
    const Core *core;
    const Head *head;
    Half actor, critic;
    Rollout rollout;
    Loss loss;
    Optimizer optimizer;
    double limit;
    /* Without rollback, which needs all parameters at rest */
    int two_threads;
    int limit_before_steps, limit_after_epochs, rollback;
    /* Each epoch's order of the samples, and where its minibatches begin and end */
    long n_epochs, n_order, n_bounds;
    const int64_t *orders, *bounds;
    /* Steps made by the optimizer so far, and at the last backup */
    double n_steps, n_steps_backup;
    /* A row for each minibatch */
    double *metrics;
    long n_minibatches, n_steps_here;
    int stopped;
    double last_kl;
} Update;

static void half_free(Half *half) {
    free(half->params);
    free(half->gradients);
    free(half->first);
    free(half->second);
    free(half->backup);
    work_free(&half->work);
    memset(half, 0, sizeof *half);
}

static int half_init(Half *half, const Shape *shape, const Head *head) {
    half->shape = shape;
    half->params = new_array(shape->size);
    half->gradients = new_array(shape->size);
    half->first = new_array(shape->size);
    half->second = new_array(shape->size);
    return half->params && half->gradients && half->first && half->second && work_init(&half->work, shape, head, 1);
}

static void back_up(Update *u) {
    for (Half *half = &u->actor; half; half = half == &u->actor ? &u->critic : 0) {
        const size_t n = (size_t)half->shape->size;
        memcpy(half->backup, half->params, sizeof(float) * n);
        memcpy(half->backup + n, half->first, sizeof(float) * n);
        memcpy(half->backup + 2 * n, half->second, sizeof(float) * n);
    }
    u->n_steps_backup = u->n_steps;
}

static void restore(Update *u) {
    for (Half *half = &u->actor; half; half = half == &u->actor ? &u->critic : 0) {
        const size_t n = (size_t)half->shape->size;
        memcpy(half->params, half->backup, sizeof(float) * n);
        memcpy(half->first, half->backup + n, sizeof(float) * n);
        memcpy(half->second, half->backup + 2 * n, sizeof(float) * n);
    }
    u->n_steps = u->n_steps_backup;
}

/* Gradients of the loss on a minibatch with respect to one half's parameters, their norm, and sums for the metrics */
static void differentiate(Update *u, Half *half, const Minibatch *batch, double *sums) {
    const Shape *shape = half->shape;
    const int is_actor = half == &u->actor, last = shape->n_layers - 1;
    float *deltas = half->work.deltas[(last + 1) % 2];
    memset(half->gradients, 0, sizeof(float) * (size_t)shape->size);
    turn(shape, half->params, &half->work);
    for (long start = 0; start < batch->n; start += BLOCK) {
        const long rows = batch->n - start < BLOCK ? batch->n - start : BLOCK;
        const Inputs inputs = gather(shape, &half->work, &u->rollout, batch->indices, start, rows);
        u->core->forward(shape, half->params, &half->work, &inputs, rows);
        if (is_actor) {
            long step;
            const float *log_std = deviations(u->head, shape, half->params, &half->work, rows, &step);
            float *of_log_std = step ? half->work.of_deviations : half->gradients + shape->log_std;
            if (step) memset(of_log_std, 0, sizeof(float) * (size_t)(rows * step));
            actor_loss(u->head, &u->loss, &u->rollout, batch, start, rows, half->work.outputs[last],
                       shape->stride[last + 1], log_std, step, half->work.scratch, deltas, of_log_std, sums);
            deviations_back(u->head, shape, &half->work, rows, half->gradients);
        } else
            critic_loss(&u->loss, &u->rollout, batch, start, rows, half->work.outputs[last],
                        shape->stride[last + 1], deltas, sums);
        u->core->backward(shape, &half->work, &inputs, rows, half->gradients);
    }
    half->norm = sqrt(u->core->square_sum(half->gradients, shape->size));
}

/* One step of the optimizer, on gradients whose norm is clipped */
static void step(const Update *u, Half *half, double norm) {
    const Optimizer *o = &u->optimizer;
    const double wanted = u->loss.max_norm / (norm + 1e-6);
    /* Not `wanted < 1`: NaN must not be hidden */
    const float scale = half->scale = wanted >= 1.0 ? 1.0f : (float)wanted;
    if (o->kind == ADAM) {
        const double rate = o->lr / (1.0 - pow(o->beta1, u->n_steps));
        const double root = sqrt(1.0 - pow(o->beta2, u->n_steps));
        u->core->adam(half->params, half->gradients, half->first, half->second, half->shape->size, scale, (float)rate,
                      (float)root, o);
    } else if (o->kind == RMS_PROP)
        u->core->rms_prop(half->params, half->gradients, half->second, half->shape->size, scale, (float)o->lr, o);
}

/* KL divergence of the actor from the one that collected the rollout */
static double rollout_kl(Update *u) {
    const Shape *shape = u->actor.shape;
    const long width = shape->stride[shape->n_layers];
    double total = 0;
    for (long start = 0; start < u->rollout.n; start += BLOCK) {
        const long rows = u->rollout.n - start < BLOCK ? u->rollout.n - start : BLOCK;
        const Inputs inputs = gather(shape, &u->actor.work, &u->rollout, 0, start, rows);
        u->core->forward(shape, u->actor.params, &u->actor.work, &inputs, rows);
        long step;
        const float *log_std = deviations(u->head, shape, u->actor.params, &u->actor.work, rows, &step);
        for (long r = 0; r < rows; r++) {
            const long i = start + r;
            float log_prob, entropy;
            head_evaluate(u->head, u->actor.work.outputs[shape->n_layers - 1] + r * width,
                          log_std + r * step,
                          u->rollout.choices ? u->rollout.choices + i * u->head->n_parts : 0,
                          u->rollout.actions ? u->rollout.actions + i * u->head->n_parts : 0, u->actor.work.scratch,
                          &log_prob, &entropy);
            const float log_ratio = log_prob - u->rollout.columns[i * N_COLUMNS + OLD_LOG_PROB];
            total += (expf(log_ratio) - 1.0f) - log_ratio;
        }
    }
    return total / (double)u->rollout.n;
}

/* Whether the divergence is above the limit. As in SB3, NaN does not stop the update: it must be seen. */
static int exceeds(Update *u, double kl) {
    const int above = kl > u->limit;
    u->last_kl = kl;
    if (u->rollback && above) restore(u);
    if (u->rollback && !above) back_up(u);
    return above;
}

static void finish_metrics(const Loss *loss, double *metrics, long n) {
    for (int i = 0; i <= ENTROPY_LOSS; i++) metrics[i] /= (double)n;
    metrics[TOTAL_LOSS] =
        metrics[POLICY_LOSS] + loss->ent_coef * metrics[ENTROPY_LOSS] + loss->vf_coef * metrics[VALUE_LOSS];
}

static Minibatch minibatch_at(const Update *u, long epoch, long b, int normalize) {
    const long n = (long)(u->bounds[b + 1] - u->bounds[b]);
    return minibatch_of(&u->rollout, u->orders + epoch * u->n_order + u->bounds[b], n, normalize);
}

#ifdef HAS_THREADS
/* The critic's half of an update on a second thread. The halves meet once for each minibatch, where the norm of all
 * gradients is clipped: the critic says that its gradients are done, the actor decides whether the step is made. */
typedef struct {
    Update *update;
    pthread_t thread;
    atomic_long n_epochs, n_done, n_decided;
    int goes_on;
    double norm;
} Partner;

/* Spins for some microseconds, then sleeps: the other thread may have to wait for a core */
static void wait_for(atomic_long *number, long least) {
    for (long reads = 0; atomic_load_explicit(number, memory_order_acquire) < least; reads++) {
        if (reads < SPINS)
            PAUSE();
        else
            nanosleep(&(struct timespec){0, 50000}, 0);
    }
}

static void *run_critic(void *argument) {
    Partner *partner = argument;
    Update *u = partner->update;
    const long per_epoch = u->n_bounds - 1;
    for (long i = 0; i < per_epoch * u->n_epochs; i++) {
        wait_for(&partner->n_epochs, i / per_epoch + 1);
        if (!partner->goes_on) return 0;
        const Minibatch batch = minibatch_at(u, i / per_epoch, i % per_epoch, 0);
        differentiate(u, &u->critic, &batch, u->metrics + N_METRICS * i);
        atomic_store_explicit(&partner->n_done, i + 1, memory_order_release);
        wait_for(&partner->n_decided, i + 1);
        if (u->n_steps_here == i) return 0; /* no step on this one */
        step(u, &u->critic, u->loss.separate ? u->critic.norm : partner->norm);
    }
    return 0;
}

/* Lets the critic make its step */
static void decide(Partner *partner, double norm) {
    partner->norm = norm;
    atomic_fetch_add_explicit(&partner->n_decided, 1, memory_order_release);
}

/* Ends the critic's half wherever it waits */
static void end(Partner *partner) {
    partner->goes_on = 0;
    atomic_fetch_add_explicit(&partner->n_decided, 1, memory_order_release);
    atomic_fetch_add_explicit(&partner->n_epochs, 1, memory_order_release);
}
#else
typedef void Partner;
#endif

/* One epoch; with a partner, only the actor's half of it */
static void run_epoch(Update *u, long epoch, Partner *partner) {
#ifdef HAS_THREADS
    if (partner) atomic_store_explicit(&partner->n_epochs, epoch + 1, memory_order_release);
#endif
    for (long b = 0; b + 1 < u->n_bounds; b++) {
        const Minibatch batch = minibatch_at(u, epoch, b, u->loss.normalize);
        double *metrics = u->metrics + N_METRICS * u->n_minibatches++;
        differentiate(u, &u->actor, &batch, metrics);
#ifdef HAS_THREADS
        if (partner)
            wait_for(&partner->n_done, u->n_minibatches);
        else
#endif
            differentiate(u, &u->critic, &batch, metrics);
        finish_metrics(&u->loss, metrics, batch.n);
        u->last_kl = metrics[KL];
        if (u->limit_before_steps && exceeds(u, metrics[KL])) {
            u->stopped = 1;
            return;
        }
        const double norm = sqrt(u->actor.norm * u->actor.norm + u->critic.norm * u->critic.norm);
        metrics[ACTOR_NORM] = u->actor.norm;
        metrics[CRITIC_NORM] = u->critic.norm;
        metrics[NORM] = norm;
        u->n_steps += 1;
        u->n_steps_here++;
#ifdef HAS_THREADS
        if (partner)
            decide(partner, norm);
        else
#endif
            step(u, &u->critic, u->loss.separate ? u->critic.norm : norm);
        step(u, &u->actor, u->loss.separate ? u->actor.norm : norm);
    }
    if (u->limit_after_epochs || (u->limit_before_steps && u->rollback && epoch == u->n_epochs - 1))
        u->stopped = exceeds(u, rollout_kl(u));
}
