/** BLAKE2b (RFC 7693) with a key and a digest of 8 bytes, which node's own does not offer. */

const MASK = (1n << 64n) - 1n;
const INITIAL = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDERS = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const MIXED = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
] as [number, number, number, number][];
const SIZE = 8;

const rotated = (word: bigint, by: bigint) => ((word >> by) | (word << (64n - by))) & MASK;

/** Return the digest of 8 bytes as a little-endian number. */
export function keyedDigest(text: Buffer, key: Buffer): bigint {
  const blocks = Math.ceil(text.length / 128) + Number(key.length > 0) || 1;
  const padded = Buffer.alloc(128 * blocks);
  key.copy(padded);
  text.copy(padded, key.length ? 128 : 0);
  const length = (key.length ? 128 : 0) + text.length;
  const state = [...INITIAL];
  state[0]! ^= BigInt(0x01010000 ^ (key.length << 8) ^ SIZE);
  for (let block = 0; block < blocks; block++) {
    const isLast = block === blocks - 1;
    compress(state, padded.subarray(128 * block), BigInt(isLast ? length : 128 * (block + 1)), isLast);
  }
  return state[0]!;
}

function compress(state: bigint[], block: Buffer, count: bigint, isLast: boolean): void {
  const words = Array.from({ length: 16 }, (_, place) => block.readBigUInt64LE(8 * place));
  const v = [...state, ...INITIAL];
  v[12]! ^= count;
  if (isLast) v[14]! ^= MASK;
  for (let round = 0; round < 12; round++) {
    const order = ORDERS[round % 10]!;
    MIXED.forEach(([a, b, c, d], place) => {
      for (const [word, one, other] of [
        [words[order[2 * place]!]!, 32n, 24n],
        [words[order[2 * place + 1]!]!, 16n, 63n],
      ] as const) {
        v[a] = (v[a]! + v[b]! + word) & MASK;
        v[d] = rotated(v[d]! ^ v[a]!, one);
        v[c] = (v[c]! + v[d]!) & MASK;
        v[b] = rotated(v[b]! ^ v[c]!, other);
      }
    });
  }
  for (let place = 0; place < 8; place++) state[place]! ^= v[place]! ^ v[place + 8]!;
}
