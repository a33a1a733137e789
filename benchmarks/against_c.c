/* 1RGP-UCB and 1RGP-TS written by hand: the arithmetic of jaxband's round, one replication after the other, each with
 * its posterior in the first cache. The limit that compiled JAX is measured against (against_c.py).
 *
 * Sizes are compile-time constants (-DARMS=10 -DPOINTS=31 -DRANK=20), as a specialised program would have them. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PAD(n, m) (((n) + (m)-1) / (m) * (m))
#define WIDTH PAD(POINTS, 8)
#define PAIRS ((ARMS + 1) / 2)
#define BLOCK 64 /* rounds whose random numbers are drawn at once */

typedef struct {
  float mean[ARMS][WIDTH], variance[ARMS][WIDTH];
  float columns[ARMS][RANK][WIDTH];
  float sums[ARMS][WIDTH];
  int32_t counts[ARMS][WIDTH];
} Posterior;

static inline uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

/* Threefry 2x32 with 20 rounds. */
static inline void threefry(const uint32_t key[2], uint32_t *high, uint32_t *low) {
  static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
  uint32_t a = *high + keys[0], b = *low + keys[1];
#pragma GCC unroll 5
  for (int group = 0; group < 5; group++) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      a += b;
      b = a ^ rotate(b, rotations[group % 2][i]);
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + group + 1;
  }
  *high = a, *low = b;
}

/* log1p on (-1, 0] without a branch, so that it vectorises: exponent, then a polynomial (Cephes). */
static inline float log_of(float x) {
  union { float f; uint32_t u; } bits = {x};
  int32_t exponent = (int32_t)(bits.u >> 23) - 126;
  bits.u = (bits.u & 0x007FFFFF) | 0x3F000000;
  float m = bits.f;
  int small = m < 0.707106781f;
  exponent -= small;
  m = m + (small ? m : 0.0f) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  return m + (p * m * m * m - 0.5f * m * m) + 0.693147181f * exponent;
}

/* Giles' approximation of the inverse error function, both branches computed and one chosen. */
static inline float erf_inverse(float x) {
  float w = -log_of((1.0f - x) * (1.0f + x));
  float a = w - 2.5f, b = sqrtf(w) - 3.0f;
  float p = 2.81022636e-08f;
  p = 3.43273939e-07f + p * a, p = -3.5233877e-06f + p * a, p = -4.39150654e-06f + p * a;
  p = 0.00021858087f + p * a, p = -0.00125372503f + p * a, p = -0.00417768164f + p * a;
  p = 0.246640727f + p * a, p = 1.50140941f + p * a;
  float q = -0.000200214257f;
  q = 0.000100950558f + q * b, q = 0.00134934322f + q * b, q = -0.00367342844f + q * b;
  q = 0.00573950773f + q * b, q = -0.0076224613f + q * b, q = 0.00943887047f + q * b;
  q = 1.00167406f + q * b, q = 2.83297682f + q * b;
  return (w < 5.0f ? p : q) * x;
}

static inline float uniform(uint32_t word) {
  union { uint32_t u; float f; } bits = {word >> 9 | 0x3F800000};
  return bits.f - 1.0f;
}

/* A standard normal number for each of BLOCK rounds: those of jaxband.prng.normals. */
static void normals(const uint32_t key[2], uint32_t first_round, float *out) {
  for (int i = 0; i < BLOCK; i++) {
    uint32_t high = first_round + i, low = 0;
    threefry(key, &high, &low);
    const float lowest = -0.99999994f;
    out[i] = 1.41421356f * erf_inverse(fmaxf(uniform(high ^ low) * (1.0f - lowest) + lowest, lowest));
  }
}

/* PAIRS pairs of them for each of BLOCK rounds, by Box and Muller: those of jaxband.prng.normal_pairs. */
static void normal_pairs(const uint32_t key[2], uint32_t first_round, float out[BLOCK][2][PAIRS]) {
  for (int t = 0; t < BLOCK; t++)
    for (int i = 0; i < PAIRS; i++) {
      uint32_t high = first_round + t, low = i;
      threefry(key, &high, &low);
      union { float f; uint32_t u; } radius = {sqrtf(-2.0f * log_of(1.0f - uniform(high)))};
      radius.u |= low << 31;
      float x = uniform(low) - 0.5f, y = x * x;
      float cosine = 0.219689611f, sine = 0.0776576603f;
      cosine = cosine * y - 1.33187657f, cosine = cosine * y + 4.05841135f;
      cosine = cosine * y - 4.93479283f, cosine = cosine * y + 0.999999953f;
      sine = sine * y - 0.598291286f, sine = sine * y + 2.55007752f;
      sine = sine * y - 5.16771008f, sine = sine * y + 3.14159264f;
      out[t][0][i] = radius.f * cosine;
      out[t][1][i] = radius.f * x * sine;
    }
}

static void observe(Posterior *p, int arm, int z, float reward, float noise) {
  float u[WIDTH] = {0}, variance[WIDTH] = {0}, v[RANK];
  float(*columns)[WIDTH] = p->columns[arm];
  for (int r = 0; r < RANK; r++) {
    v[r] = columns[r][z];
    for (int g = 0; g < WIDTH; g++) u[g] += columns[r][g] * v[r];
  }
  float predictive = p->variance[arm][z] + noise * noise;
  float gain = (reward - p->mean[arm][z]) / predictive;
  float scale = 1.0f / (predictive + noise * sqrtf(predictive));
  for (int g = 0; g < WIDTH; g++) p->mean[arm][g] += u[g] * gain;
  for (int r = 0; r < RANK; r++) {
    float factor = v[r] * scale;
    for (int g = 0; g < WIDTH; g++) {
      float entry = columns[r][g] - u[g] * factor;
      columns[r][g] = entry;
      variance[g] += entry * entry;
    }
  }
  memcpy(p->variance[arm], variance, sizeof variance);
  p->counts[arm][z]++;
  p->sums[arm][z] += reward;
}

/* One replication after the other. curves [replications, ARMS, POINTS]; root [POINTS, RANK]; keys [replications, 2].
 * out [replications, 3]: total reward, expected reward, instantaneous regret; plays [replications, ARMS]. */
void run(int thompson, int replications, int horizon, const float *curves, const float *root, const uint32_t *key_noise,
         const uint32_t *key_plan, float noise, float log_count, float first_round, double *out, int32_t *plays) {
  static _Thread_local Posterior prior, posterior;
  static _Thread_local float shocks[BLOCK], draws[BLOCK][2][PAIRS];
  memset(&prior, 0, sizeof prior);
  for (int a = 0; a < ARMS; a++)
    for (int r = 0; r < RANK; r++)
      for (int g = 0; g < POINTS; g++) {
        float entry = root[g * RANK + r];
        prior.columns[a][r][g] = entry;
        prior.variance[a][g] += entry * entry;
      }
  for (int i = 0; i < replications; i++) {
    const float *curve = curves + (size_t)i * ARMS * POINTS;
    int z[ARMS] = {0}, played[ARMS] = {0};
    double total = 0, expected = 0, regret = 0;
    posterior = prior;
    for (int t = 0; t < horizon; t++) {
      if (t % BLOCK == 0) {
        normals(key_noise + 2 * i, t, shocks);
        if (thompson) normal_pairs(key_plan + 2 * i, t, draws);
      }
      float alpha = thompson ? 0.0f : sqrtf(2.0f * (log_count + 2.0f * log_of((float)t + first_round)));
      int arm = 0;
      float best = -INFINITY, best_expected = -INFINITY;
      for (int a = 0; a < ARMS; a++) {
        float factor = thompson ? draws[t % BLOCK][a / PAIRS][a % PAIRS] : alpha;
        float score = posterior.mean[a][z[a]] + factor * sqrtf(posterior.variance[a][z[a]]);
        float value = curve[a * POINTS + z[a]];
        if (score > best) best = score, arm = a;
        if (value > best_expected) best_expected = value;
      }
      float value = curve[arm * POINTS + z[arm]], reward = value + noise * shocks[t % BLOCK];
      observe(&posterior, arm, z[arm], reward, noise);
      for (int a = 0; a < ARMS; a++) z[a] = z[a] < POINTS - 1 ? z[a] + 1 : z[a];
      z[arm] = 0;
      played[arm]++;
      total += reward, expected += value, regret += best_expected - value;
    }
    out[3 * i] = total, out[3 * i + 1] = expected, out[3 * i + 2] = regret;
    memcpy(plays + (size_t)i * ARMS, played, sizeof played);
  }
}
