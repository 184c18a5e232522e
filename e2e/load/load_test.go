package load

import "testing"

// Evenly spaced keys would hide what relays do to the order of a key, so keys come in runs and some far more often.
func TestKeysComeInBursts(t *testing.T) {
	for _, n := range []int{10, 100, 10_000} {
		k := newKeys("k-", n, 1)
		const picks = 10_000
		counts := map[string]int{}
		repeats, last := 0, ""
		for range picks {
			key := k.next()
			counts[key]++
			if key == last {
				repeats++
			}
			last = key
		}
		if repeats < picks/2 {
			t.Errorf("of %d keys %d picks in %d repeat the one before, want at least half", n, repeats, picks)
		}
		most := 0
		for _, c := range counts {
			most = max(most, c)
		}
		if even := picks / len(counts); most < 3*even/2 {
			t.Errorf("of %d keys the most frequent comes %d times, the mean is %d: no key is hot", n, most, even)
		}
	}
}

func TestKeysComeFromTheSeed(t *testing.T) {
	a, b, other := newKeys("k-", 100, 1), newKeys("k-", 100, 1), newKeys("k-", 100, 2)
	same := true
	for range 100 {
		key := a.next()
		if key != b.next() {
			t.Fatal("the same seed gives other keys")
		}
		same = same && key == other.next()
	}
	if same {
		t.Error("two seeds give the same keys")
	}
}
