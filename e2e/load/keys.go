package load

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// keys hands out keys in bursts: evenly spaced keys hide what relays do to the order of one key.
type keys struct {
	mu     sync.Mutex
	rng    *rand.Rand
	zipf   *rand.Zipf
	prefix string
	key    string
	left   int // how often the key is still handed out
}

func newKeys(prefix string, n int, seed uint64) *keys {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &keys{rng: rng, zipf: rand.NewZipf(rng, 1.1, float64(n)/10+1, uint64(n-1)), prefix: prefix}
}

func (k *keys) next() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		k.key = key(k.prefix, int(k.zipf.Uint64()))
		k.left = 1 + k.rng.IntN(6)
	}
	k.left--
	return k.key
}

func key(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, n) }
