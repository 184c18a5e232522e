package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// built holds the binaries of a test run.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "posthaste-e2e-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withServers{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(built)
		os.Exit(code)
	}))
}

// withServers removes the servers that tests have started and kept, before anybody looks for what is left over.
type withServers struct{ *testing.M }

func (m withServers) Run() int {
	code := m.M.Run()
	if err := removeOwn(); err != nil {
		fmt.Fprintln(os.Stderr, "remove the suite's own brokers:", err)
		return max(code, 1)
	}
	return code
}

// posthaste returns the binary under test.
func posthaste(t *testing.T) string {
	if given := os.Getenv("POSTHASTE_E2E_BINARY"); given != "" {
		return given
	}
	return build(t, buildPosthaste)
}

// wrongRelay returns the relay that makes mistakes.
func wrongRelay(t *testing.T) string { return build(t, buildWrongRelay) }

var (
	buildPosthaste  = builder("posthaste.dev/posthaste/cmd/posthaste")
	buildWrongRelay = builder("posthaste.dev/posthaste/e2e/wrongrelay")
)

// builder builds a command once, when it is first wanted.
func builder(pkg string) func() (string, []byte, error) {
	type result struct {
		path string
		out  []byte
		err  error
	}
	once := sync.OnceValue(func() result {
		path := filepath.Join(built, filepath.Base(pkg))
		out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput()
		return result{path, out, err}
	})
	return func() (string, []byte, error) {
		r := once()
		return r.path, r.out, r.err
	}
}

func build(t *testing.T, b func() (string, []byte, error)) string {
	t.Helper()
	path, out, err := b()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", filepath.Base(path), err, out)
	}
	return path
}

// seedOf returns the seed of a run and logs how to repeat it.
func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("POSTHASTE_E2E_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("read POSTHASTE_E2E_SEED: %v", err)
		}
	}
	t.Logf("repeat this run with POSTHASTE_E2E_SEED=%d", seed)
	return seed
}

// span is a time that is what a test is about: how long an outage lasts, how long a transaction stays open. A long run
// takes the time of the case as it was reported.
func span(short, long time.Duration) time.Duration {
	if os.Getenv("POSTHASTE_E2E_LONG") != "" {
		return long
	}
	return short
}

// onlyLong is for tests that have no short form.
func onlyLong(t *testing.T) {
	t.Helper()
	if os.Getenv("POSTHASTE_E2E_LONG") == "" {
		t.Skip("takes long: set POSTHASTE_E2E_LONG, or run scripts/long")
	}
}

// loadTime returns how long a chaos run writes.
func loadTime(t *testing.T) time.Duration {
	given := os.Getenv("POSTHASTE_E2E_SECONDS")
	if given == "" {
		return span(15*time.Second, 2*time.Minute)
	}
	seconds, err := strconv.Atoi(given)
	if err != nil || seconds < 5 {
		t.Fatalf("POSTHASTE_E2E_SECONDS is %q, want a whole number of at least 5", given)
	}
	return time.Duration(seconds) * time.Second
}
