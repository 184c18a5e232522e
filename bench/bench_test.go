package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste.dev/posthaste/internal/testenv"
)

// TestMain lets the test binary be the processes that it starts, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && relays[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

// The subjects that TestRun gives each scenario: together all of them, and for each scenario one that does all its
// steps. What takes longest comes first.
var tried = [][2]string{
	{"waiting", "posthaste"},
	{"growth", "posthaste-storage"},
	{"burst", "posthaste"},
	{"drain", "handwritten-50,posthaste-skip-locked,mark-bound,ceiling"},
	{"idle", "posthaste"},
	{"slow-broker", "posthaste"},
	{"writers-cost", "posthaste"},
	{"steady-1k", "floor,posthaste-strict"},
	{"lone", "floor,posthaste-wakeup"},
	{"held-xmin", "posthaste"},
	{"relays", "posthaste"},
	{"steady-5k", "posthaste"},
	{"steady-10k", "handwritten-1000"},
	{"many-topics", "posthaste-sync"},
	{"drain-100k-keys", "posthaste-delete"},
}

// A small run through all of it.
func TestRun(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.posthaste = filepath.Join(t.TempDir(), "posthaste")
	build := exec.Command("go", "build", "-o", o.posthaste, "posthaste.dev/posthaste/cmd/posthaste")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build posthaste: %v\n%s", err, out)
	}
	var scenarios, subjects []string
	for _, one := range tried {
		scenarios = append(scenarios, one[0])
		subjects = append(subjects, strings.Split(one[1], ",")...)
	}
	for _, scenario := range o.allScenarios() {
		if !slices.Contains(scenarios, scenario.name) {
			t.Errorf("%s is not tried", scenario.name)
		}
	}
	for _, subject := range o.allSubjects() {
		if !slices.Contains(subjects, subject.Name()) {
			t.Errorf("%s is not tried", subject.Name())
		}
	}
	// They wait most of the time, so there are more of them at once than cores.
	var wg sync.WaitGroup
	places := make(chan struct{}, 6)
	for _, one := range tried {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			o := o
			o.scenarios, o.subjects = one[0], one[1]
			began := time.Now()
			report := runOf(t, o)
			for _, f := range report.Failures {
				t.Errorf("%s: %s: %s", f.Scenario, f.Subject, f.Error)
			}
			checkFigures(t, o.scenarios, report)
			t.Logf("%s: %.1f s", o.scenarios, time.Since(began).Seconds())
		})
	}
	wg.Wait()
}

// small are options for the least work that goes through all steps.
func small(t *testing.T) options {
	t.Helper()
	for _, key := range []string{testenv.DatabaseURL, testenv.KafkaBrokers, testenv.Kafka3Brokers} {
		testenv.Require(t, key)
	}
	o, err := parse([]string{"--quick"})
	if err != nil {
		t.Fatal(err)
	}
	o.size.Small, o.size.Large, o.size.Topics, o.size.Waiting = 2000, 2000, 3, 1000
	o.size.Steady, o.size.Writing, o.size.Burst, o.size.Lone = 300*time.Millisecond, 300*time.Millisecond, 100, 1
	o.size.Growing, o.storage = 2000, "fillfactor=70"
	o.size.Delays = []time.Duration{5 * time.Millisecond}
	return o
}

func runOf(t *testing.T, o options) *report {
	t.Helper()
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r.progress = &said
	report, err := r.run(t.Context())
	if err != nil {
		t.Errorf("%s: %v\n%s", o.scenarios, err, &said)
		return newReport()
	}
	return report
}

// checkFigures checks that each subject has one value of each figure that makes sense, and what the bars ask for.
func checkFigures(t *testing.T, scenario string, r *report) {
	t.Helper()
	if len(r.Results) == 0 {
		t.Errorf("%s: no figures", scenario)
	}
	for _, one := range r.Results {
		nothing := slices.Contains([]string{"reordered", "dead rows at most", "vacuums"}, one.Name) ||
			strings.HasSuffix(one.Unit, "of a core") || one.Unit == "B/event" ||
			one.Name == "PostgreSQL CPU" // in ticks of 10 ms
		if len(one.Values) != 1 || one.Median < 0 || one.Median == 0 && !nothing {
			t.Errorf("%s: %s: %s: values %v", scenario, one.Subject, one.Name, one.Values)
		}
	}
	want := map[string]int{"steady-5k": 7, "idle": 4, "slow-broker": 3, "waiting": 12}[scenario]
	if figures := len(r.Results); want > 0 && figures != want {
		t.Errorf("%s: %d figures, want %d", scenario, figures, want)
	}
}

// One that fails does not keep the others from their figures, and has none itself.
func TestFailureOfASubject(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.posthaste, o.rounds = "/bin/false", 2
	o.scenarios, o.subjects = "drain", "posthaste,mark-bound"
	report := runOf(t, o)
	if err := report.failed(); err == nil || !strings.Contains(err.Error(), "1 measurements failed") {
		t.Errorf("failed() = %v, want one failure, since who failed is not tried again", err)
	}
	if one, ok := report.find("drain", "mark-bound", "drain"); !ok || len(one.Values) != 2 {
		t.Errorf("the other subject has values %v, want two", one.Values)
	}
	if _, ok := report.find("drain", "posthaste", "drain"); ok {
		t.Error("the subject that failed has figures")
	}
}

// A subject that is fast once gets the large backlog ever after, a slow one never.
func TestSized(t *testing.T) {
	t.Parallel()
	o := small(t)
	ctx := t.Context()
	o.size.Large = 3000
	g := newGrounds(o)
	g.scratch = t.TempDir()
	defer func() {
		if err := g.close(ctx); err != nil {
			t.Error(err)
		}
	}()
	drains := func(want int) {
		t.Helper()
		if d, err := g.sized(ctx, usual(0), markBound{}, 1); err != nil || d.events != want {
			t.Errorf("drained %d events, %v; want %d", d.events, err, want)
		}
	}
	g.fast = 1
	drains(o.size.Large)
	clear(g.slow)
	g.fast = 1e9
	drains(o.size.Small)
	g.fast = 1
	drains(o.size.Small)
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.scenarios, o.subjects, o.save = "drain", "mark-bound", filepath.Join(t.TempDir(), "results.json")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever says that a measurement begins is cut off there.
	r.progress = writerFunc(func(text []byte) {
		if bytes.Contains(text, []byte("drain: mark-bound")) {
			cancel()
		}
	})
	if _, err := r.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run = %v, want that it was canceled", err)
	}
	if _, err := os.Stat(o.save); err != nil {
		t.Errorf("nothing was saved: %v", err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(text []byte) (int, error) { f(text); return len(text), nil }
