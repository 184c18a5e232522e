package servers

import (
	"regexp"
	"testing"
)

func TestClusterIDsAreNoOptions(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{21}$`)
	for range 10_000 {
		if id := newClusterID(); !plain.MatchString(id) {
			t.Fatalf("cluster id %q", id)
		}
	}
}
