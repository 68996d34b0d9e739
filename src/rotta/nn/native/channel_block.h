/* The loops of norms.c over LANES neighbouring channels, from `first` on, of rows of `channels`.

   Included once for each LANES: the widest that fits does most of the channels, the narrower ones
   the rest. `first` is where in each row, and in vectors per channel, the block begins. */

#define JOIN_(name, lanes) name##_##lanes
#define JOIN(name, lanes) JOIN_(name, lanes)
#define NAMED(name) JOIN(name, LANES)
#define VEC NAMED(vec)

typedef float VEC __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline VEC NAMED(load)(const float *from) { return *(const VEC *)from; }
static inline void NAMED(store)(float *to, VEC values) { *(VEC *)to = values; }

/* Zero where a ReLU lets nothing through. What is not a number goes through: it must be noticed. */
static inline VEC NAMED(passed)(VEC values, VEC before_relu) {
    typedef int MASK __attribute__((vector_size(4 * LANES)));
    MASK stopped = before_relu <= (VEC){0};
    return (VEC)((MASK)values & ~stopped);
}

/* sums += Σ x */
static void NAMED(add_up)(const float *x, long rows, long channels, float *sums) {
    VEC sum[4] = {NAMED(load)(sums)};
    long row = 0;
    for (; row + 4 <= rows; row += 4)
        for (int k = 0; k < 4; k++) sum[k] += NAMED(load)(x + (row + k) * channels);
    for (; row < rows; row++) sum[0] += NAMED(load)(x + row * channels);
    NAMED(store)(sums, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* of_squares += Σ (x − centre)², rests += Σ (x − centre): what rounding has left in the centre */
static void NAMED(add_up_squares)(const float *x, long rows, long channels, const float *centres,
                                  float *of_squares, float *rests) {
    VEC centre = NAMED(load)(centres);
    VEC squares[2] = {NAMED(load)(of_squares)}, rest[2] = {NAMED(load)(rests)};
    long row = 0;
    for (; row + 2 <= rows; row += 2)
        for (int k = 0; k < 2; k++) {
            VEC off = NAMED(load)(x + (row + k) * channels) - centre;
            rest[k] += off;
            squares[k] += off * off;
        }
    for (; row < rows; row++) {
        VEC off = NAMED(load)(x + row * channels) - centre;
        rest[0] += off;
        squares[0] += off * off;
    }
    NAMED(store)(of_squares, squares[0] + squares[1]);
    NAMED(store)(rests, rest[0] + rest[1]);
}

/* y = scale·x + shift, and ReLU of it if wanted */
static void NAMED(scale_and_shift)(const float *x, float *y, long rows, long channels,
                                   const float *scales, const float *shifts, int relu) {
    VEC scale = NAMED(load)(scales), shift = NAMED(load)(shifts);
    if (relu)
        for (long row = 0; row < rows; row++) {
            VEC value = scale * NAMED(load)(x + row * channels) + shift;
            NAMED(store)(y + row * channels, NAMED(passed)(value, value));
        }
    else
        for (long row = 0; row < rows; row++)
            NAMED(store)(y + row * channels, scale * NAMED(load)(x + row * channels) + shift);
}

/* of_shift += Σ g, of_scale += Σ g·(x − centre), where g is ∂L/∂y behind the ReLU, if there is one */
static void NAMED(add_up_gradients)(const float *grad, const float *x, long rows, long channels,
                                    const float *scales, const float *shifts, int relu,
                                    const float *centres, float *of_scale, float *of_shift) {
    VEC scale = NAMED(load)(scales), shift = NAMED(load)(shifts), centre = NAMED(load)(centres);
    VEC of_scales[2] = {NAMED(load)(of_scale)}, of_shifts[2] = {NAMED(load)(of_shift)};
    for (long row = 0; row < rows; row++) {
        VEC value = NAMED(load)(x + row * channels), g = NAMED(load)(grad + row * channels);
        if (relu) g = NAMED(passed)(g, scale * value + shift);
        of_shifts[row & 1] += g;
        of_scales[row & 1] += g * (value - centre);
    }
    NAMED(store)(of_scale, of_scales[0] + of_scales[1]);
    NAMED(store)(of_shift, of_shifts[0] + of_shifts[1]);
}

/* of_x = scale·g + slope·x + offset, g as above */
static void NAMED(gradient)(const float *grad, const float *x, float *of_x, long rows,
                            long channels, const float *scales, const float *shifts, int relu,
                            const float *slopes, const float *offsets) {
    VEC scale = NAMED(load)(scales), shift = NAMED(load)(shifts);
    VEC slope = NAMED(load)(slopes), offset = NAMED(load)(offsets);
    for (long row = 0; row < rows; row++) {
        VEC value = NAMED(load)(x + row * channels), g = NAMED(load)(grad + row * channels);
        if (relu) g = NAMED(passed)(g, scale * value + shift);
        NAMED(store)(of_x + row * channels, scale * g + (slope * value + offset));
    }
}

#undef VEC
#undef NAMED
#undef JOIN
#undef JOIN_
#undef LANES
