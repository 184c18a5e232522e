package posthaste_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain leaves the examples out under -short, which promises to need no server: an example can't skip itself.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
