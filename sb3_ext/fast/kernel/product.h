/* Products of matrices, part of core.h. Element (r, k) of a is a[r * a_row + k * a_col], so that it may be read
 * transposed. */

/* A tile of c = a b, plus what is there already if `add`, plus a row of biases if given. Inlined with constant rows and
 * vecs: the sums stay in registers. */
static inline __attribute__((always_inline)) void FN(tile)(const int rows, const int vecs, long depth, const float *a,
                                                           long a_row, long a_col, const float *b, long b_row, float *c,
                                                           long c_row, const float *bias, int add) {
    VEC sums[2 * ROWS][VECS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++)
            sums[r][v] = bias ? READ(bias + v * LANES) : add ? READ(c + r * c_row + v * LANES) : (VEC){0};
    for (long k = 0; k < depth; k++) {
        VEC row[VECS];
        for (int v = 0; v < vecs; v++) row[v] = READ(b + k * b_row + v * LANES);
        for (int r = 0; r < rows; r++) {
            const float x = a[r * a_row + k * a_col];
            for (int v = 0; v < vecs; v++) sums[r][v] += x * row[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) AT(c + r * c_row + v * LANES) = sums[r][v];
}

#define TILES(rows, vecs)                     \
    for (; m + (rows) <= n_rows; m += (rows)) \
    FN(tile)((rows), (vecs), depth, a + m * a_row, a_row, a_col, b, b_row, c + m * c_row, c_row, bias, add)

/* As many columns of a product as a tile has */
static void FN(strip)(long n_rows, long depth, const float *a, long a_row, long a_col, const float *b, long b_row,
                      float *c, long c_row, const float *bias, int add) {
    long m = 0;
    TILES(ROWS, VECS);
    TILES(1, VECS);
}

/* The same where rows of b are far apart: they are copied side by side, a part of the depth at a time. Otherwise each
 * tile would read each of them from another page, and from beyond the first cache. */
static void FN(far_strip)(long n_rows, long depth, const float *a, long a_row, long a_col, const float *b, long b_row,
                          float *c, long c_row, const float *bias, int add) {
    float copy[PANEL] __attribute__((aligned(4 * PADDING)));
    const long width = VECS * LANES;
    for (long start = 0, part; start < depth; start += part) {
        part = depth - start < PANEL / width ? depth - start : PANEL / width;
        for (long k = 0; k < part; k++, b += b_row)
            for (int v = 0; v < VECS; v++) AT(copy + k * width + v * LANES) = READ(b + v * LANES);
        FN(strip)(n_rows, part, a + start * a_col, a_row, a_col, copy, width, c, c_row, start ? 0 : bias, start || add);
    }
}

static void FN(product)(long n_rows, long n_cols, long depth, const float *a, long a_row, long a_col, const float *b,
                        long b_row, float *c, long c_row, const float *bias, int add) {
    for (long left = n_cols / LANES, wide; left > 0; left -= wide, b += wide * LANES, c += wide * LANES) {
        long m = 0;
        wide = left >= VECS ? VECS : left >= 2 ? 2 : 1;
        if (wide == VECS) {
            (b_row >= FAR && n_rows >= MANY ? FN(far_strip) : FN(strip))(n_rows, depth, a, a_row, a_col, b, b_row, c,
                                                                         c_row, bias, add);
        } else if (wide == 2) {
            TILES(ROWS, 2);
            TILES(1, 2);
        } else {
            TILES(2 * ROWS, 1);
            TILES(1, 1);
        }
        if (bias) bias += wide * LANES;
    }
}

#undef TILES
