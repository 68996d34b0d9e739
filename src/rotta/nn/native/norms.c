/* Passes over activations, (rows, channels) in memory, that normalisation layers make on a CPU.

   Rows go in groups: the pixels of an image, whose numbers are its own, or just a piece of the
   batch, so that cores can share the work and results do not depend on how many there are. The
   last group may be shorter. Numbers "of each group" are (groups, channels). */

#include <math.h>
#include <stdlib.h>

#define LANES 1
#include "channel_block.h"
#define LANES 4
#include "channel_block.h"
#ifdef __AVX__
#define LANES 8
#include "channel_block.h"
#define BY_EIGHTS(call) for (; c + 8 <= channels; c += 8) call(8)
#else
#define BY_EIGHTS(call)
#endif
#ifdef __AVX512F__
#define LANES 16
#include "channel_block.h"
#define BY_SIXTEENS(call) for (; c + 16 <= channels; c += 16) call(16)
#else
#define BY_SIXTEENS(call)
#endif

#define EACH_GROUP                                                                                 \
    long groups = (rows + group_rows - 1) / group_rows;                                            \
    _Pragma("omp parallel for num_threads(threads) if (threads > 1 && groups > 1)")                \
    for (long group = 0; group < groups; group++)

static inline long least(long a, long b) { return a < b ? a : b; }

static inline long most(long a, long b) { return a > b ? a : b; }

/* Rows of `channels` values that stay in the first-level cache while all channels go over them. */
static inline long rows_at_once(long channels) { return most(8, 4096 / channels); }

/* Rows over which single precision adds up; their sums are added up in double precision. */
static inline long rows_of_a_sum(long channels) { return most(64, 2048 / channels); }

static inline void add_to(double *sums, float *parts, long channels) {
    for (long c = 0; c < channels; c++) {
        sums[c] += parts[c];
        parts[c] = 0.0f;
    }
}

#define BY_CHANNELS(call)                                                                          \
    do {                                                                                           \
        long c = 0;                                                                                \
        BY_SIXTEENS(call);                                                                         \
        BY_EIGHTS(call);                                                                           \
        for (; c + 4 <= channels; c += 4) call(4);                                                 \
        for (; c < channels; c++) call(1);                                                         \
    } while (0)

#define BY_PIECES(first, last, call)                                                               \
    for (long from = (first), piece = rows_at_once(channels); from < (last); from += piece) {      \
        long here = least(piece, (last)-from);                                                     \
        BY_CHANNELS(call);                                                                         \
    }

/* Of which sources this was compiled, as setup.py counts them: others are not used. */
unsigned rotta_sources(void) { return ROTTA_SOURCES; }

/* Mean and biased variance of each group. */
void rotta_moments(const float *x, long rows, long group_rows, long channels, float *mean,
                   float *var, int threads) {
    EACH_GROUP {
        long count = least(group_rows, rows - group * group_rows), block = rows_of_a_sum(channels);
        const float *in = x + group * group_rows * channels;
        float *m = mean + group * channels, *v = var + group * channels;
        double *sums = calloc(2 * (size_t)channels, sizeof(double)), *squares = sums + channels;
        float *parts = calloc(2 * (size_t)channels, sizeof(float)), *rests = parts + channels;
#define ADD_UP(lanes) add_up_##lanes(in + from * channels + c, here, channels, parts + c)
        for (long start = 0; start < count; start += block) {
            BY_PIECES(start, least(start + block, count), ADD_UP)
            add_to(sums, parts, channels);
        }
        for (long c = 0; c < channels; c++) {
            m[c] = (float)(sums[c] / (double)count);
            sums[c] = 0.0;
        }
#define ADD_UP_SQUARES(lanes)                                                                      \
    add_up_squares_##lanes(in + from * channels + c, here, channels, m + c, parts + c, rests + c)
        for (long start = 0; start < count; start += block) {
            BY_PIECES(start, least(start + block, count), ADD_UP_SQUARES)
            add_to(squares, parts, channels);
            add_to(sums, rests, channels);
        }
        for (long c = 0; c < channels; c++) {
            double left = sums[c] / (double)count; /* what rounding has left in the mean */
            float rest = (float)(squares[c] / (double)count - left * left);
            m[c] += (float)left;
            v[c] = rest < 0.0f ? 0.0f : rest; /* what is not a number stays */
        }
        free(sums);
        free(parts);
    }
}

/* Mean and biased variance of all rows, from those of each group: too few for several threads. */
void rotta_pooled_moments(const float *group_mean, const float *group_var, long rows,
                          long group_rows, long channels, float *mean, float *var, int threads) {
    (void)threads;
    long groups = (rows + group_rows - 1) / group_rows;
    for (long c = 0; c < channels; c++) {
        double sum = 0.0, squares = 0.0;
        for (long group = 0; group < groups; group++)
            sum += (double)least(group_rows, rows - group * group_rows) *
                   group_mean[group * channels + c];
        double of_all = sum / (double)rows;
        for (long group = 0; group < groups; group++) {
            double off = group_mean[group * channels + c] - of_all;
            squares += (double)least(group_rows, rows - group * group_rows) *
                       (group_var[group * channels + c] + off * off);
        }
        mean[c] = (float)of_all;
        var[c] = (float)(squares / (double)rows);
    }
}

/* y = scale·x + shift, then ReLU if wanted; y may be x. Scale and shift are of each group if
   `own`, else of all. */
void rotta_scale_and_shift(const float *x, float *y, long rows, long group_rows, long channels,
                           const float *scale, const float *shift, int own, int relu,
                           int threads) {
    EACH_GROUP {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        const float *in = x + group * group_rows * channels;
        float *out = y + group * group_rows * channels;
#define SCALE_AND_SHIFT(lanes)                                                                     \
    scale_and_shift_##lanes(in + from * channels + c, out + from * channels + c, here, channels,   \
                            scale + at + c, shift + at + c, relu)
        BY_PIECES(0, count, SCALE_AND_SHIFT)
    }
}

/* y = γ·(x − μ)/√(σ² + ε) + β, then ReLU if wanted; y may be x. */
void rotta_normalise(const float *x, float *y, long rows, long group_rows, long channels,
                     const float *mean, const float *var, const float *weight, const float *bias,
                     float eps, int relu, int threads) {
    float *scale = malloc(2 * (size_t)channels * sizeof(float)), *shift = scale + channels;
    for (long c = 0; c < channels; c++) {
        scale[c] = weight[c] / sqrtf(var[c] + eps);
        shift[c] = bias[c] - mean[c] * scale[c];
    }
    rotta_scale_and_shift(x, y, rows, group_rows, channels, scale, shift, 0, relu, threads);
    free(scale);
}

/* Sums of each group that the gradients of scale and shift are made of, around `centre`. */
void rotta_gradient_sums(const float *grad, const float *x, long rows, long group_rows,
                         long channels, const float *scale, const float *shift,
                         const float *centre, int own, int relu, float *of_scale,
                         float *of_shift, int threads) {
    EACH_GROUP {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        long block = rows_of_a_sum(channels);
        const float *g = grad + group * group_rows * channels;
        const float *in = x + group * group_rows * channels;
        double *sums = calloc(2 * (size_t)channels, sizeof(double)), *plain = sums + channels;
        float *parts = calloc(2 * (size_t)channels, sizeof(float)), *plain_parts = parts + channels;
#define ADD_UP_GRADIENTS(lanes)                                                                    \
    add_up_gradients_##lanes(g + from * channels + c, in + from * channels + c, here, channels,    \
                             scale + at + c, shift + at + c, relu, centre + at + c, parts + c,     \
                             plain_parts + c)
        for (long start = 0; start < count; start += block) {
            BY_PIECES(start, least(start + block, count), ADD_UP_GRADIENTS)
            add_to(sums, parts, channels);
            add_to(plain, plain_parts, channels);
        }
        for (long c = 0; c < channels; c++) {
            of_scale[group * channels + c] = (float)sums[c];
            of_shift[group * channels + c] = (float)plain[c];
        }
        free(sums);
        free(parts);
    }
}

/* ∂L/∂x = scale·g + slope·x + offset, where g is ∂L/∂y behind the ReLU; of_x may be grad. */
void rotta_gradient(const float *grad, const float *x, float *of_x, long rows, long group_rows,
                    long channels, const float *scale, const float *shift, const float *slope,
                    const float *offset, int own, int relu, int threads) {
    EACH_GROUP {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        const float *g = grad + group * group_rows * channels;
        const float *in = x + group * group_rows * channels;
        float *out = of_x + group * group_rows * channels;
#define GRADIENT(lanes)                                                                            \
    gradient_##lanes(g + from * channels + c, in + from * channels + c,                            \
                     out + from * channels + c, here, channels, scale + at + c, shift + at + c,    \
                     relu, slope + at + c, offset + at + c)
        BY_PIECES(0, count, GRADIENT)
    }
}
