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

#define EACH_GROUP(of)                                                                             \
    long groups = (rows + group_rows - 1) / group_rows;                                            \
    _Pragma("omp parallel for num_threads(threads) if (threads > 1)") for (long group = 0;         \
                                                                           group < groups; group++)

static inline long least(long a, long b) { return a < b ? a : b; }

/* Rows of `channels` values that stay in the first-level cache while all channels go over them. */
static inline long rows_at_once(long channels) {
    long rows = 4096 / channels;
    return rows < 8 ? 8 : rows;
}

#define BY_CHANNELS(call)                                                                          \
    do {                                                                                           \
        long c = 0;                                                                                \
        BY_SIXTEENS(call);                                                                         \
        BY_EIGHTS(call);                                                                           \
        for (; c + 4 <= channels; c += 4) call(4);                                                 \
        for (; c < channels; c++) call(1);                                                         \
    } while (0)

#define BY_PIECES(count, call)                                                                     \
    for (long from = 0, piece = rows_at_once(channels); from < (count); from += piece) {           \
        long here = least(piece, (count)-from);                                                    \
        BY_CHANNELS(call);                                                                         \
    }

/* Which functions there are and what they take: to be counted up with every change of that. */
int rotta_interface(void) { return 1; }

/* Mean and biased variance of each group. */
void rotta_moments(const float *x, long rows, long group_rows, long channels, float *mean,
                   float *var, int threads) {
    EACH_GROUP() {
        long count = least(group_rows, rows - group * group_rows);
        const float *in = x + group * group_rows * channels;
        float *m = mean + group * channels, *v = var + group * channels;
        float *rest = calloc(channels, sizeof(float));
        for (long c = 0; c < channels; c++) m[c] = v[c] = 0.0f;
#define ADD_UP(lanes) add_up_##lanes(in + from * channels + c, here, channels, m + c)
        BY_PIECES(count, ADD_UP)
        for (long c = 0; c < channels; c++) m[c] /= (float)count;
#define ADD_UP_SQUARES(lanes)                                                                      \
    add_up_squares_##lanes(in + from * channels + c, here, channels, m + c, v + c, rest + c)
        BY_PIECES(count, ADD_UP_SQUARES)
        for (long c = 0; c < channels; c++) {
            float left = rest[c] / (float)count;
            m[c] += left;
            v[c] = v[c] / (float)count - left * left;
        }
        free(rest);
    }
}

/* Mean and biased variance of all rows, from those of each group. */
void rotta_pooled_moments(const float *group_mean, const float *group_var, long rows,
                          long group_rows, long channels, float *mean, float *var) {
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
    EACH_GROUP() {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        const float *in = x + group * group_rows * channels;
        float *out = y + group * group_rows * channels;
#define SCALE_AND_SHIFT(lanes)                                                                     \
    scale_and_shift_##lanes(in + from * channels + c, out + from * channels + c, here, channels,   \
                            scale + at + c, shift + at + c, relu)
        BY_PIECES(count, SCALE_AND_SHIFT)
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
    EACH_GROUP() {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        const float *g = grad + group * group_rows * channels;
        const float *in = x + group * group_rows * channels;
        float *sums = of_scale + group * channels, *plain = of_shift + group * channels;
        for (long c = 0; c < channels; c++) sums[c] = plain[c] = 0.0f;
#define ADD_UP_GRADIENTS(lanes)                                                                    \
    add_up_gradients_##lanes(g + from * channels + c, in + from * channels + c, here, channels,    \
                             scale + at + c, shift + at + c, relu, centre + at + c, sums + c,      \
                             plain + c)
        BY_PIECES(count, ADD_UP_GRADIENTS)
    }
}

/* ∂L/∂x = scale·g + slope·x + offset, where g is ∂L/∂y behind the ReLU; of_x may be grad. */
void rotta_gradient(const float *grad, const float *x, float *of_x, long rows, long group_rows,
                    long channels, const float *scale, const float *shift, const float *slope,
                    const float *offset, int own, int relu, int threads) {
    EACH_GROUP() {
        long count = least(group_rows, rows - group * group_rows), at = own ? group * channels : 0;
        const float *g = grad + group * group_rows * channels;
        const float *in = x + group * group_rows * channels;
        float *out = of_x + group * group_rows * channels;
#define GRADIENT(lanes)                                                                            \
    gradient_##lanes(g + from * channels + c, in + from * channels + c,                            \
                     out + from * channels + c, here, channels, scale + at + c, shift + at + c,    \
                     relu, slope + at + c, offset + at + c)
        BY_PIECES(count, GRADIENT)
    }
}
