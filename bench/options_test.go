package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	tests := map[string]string{
		"--rounds 0":                   "--rounds",
		"--small 1":                    "--small",
		"--large 20000":                "--large",
		"--steady 1ms":                 "--steady",
		"--lone 0":                     "--lone",
		"drain":                        "not understood",
		"--subjects posthaste,nothing": `no "nothing"`,
		"--subjects posthaste-storage": `no "posthaste-storage"`,
		"--scenarios draining":         `no "draining"`,
		"--scenarios [":                "syntax error in pattern",
		"--from /nowhere":              "read results",
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			args := append([]string{"--database", "postgres://localhost:1/none", "--kafka", "localhost:1"},
				strings.Fields(args)...)
			if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("subject", "floor,posthaste-s*,floor", options{}.allSubjects())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range chosen {
		names = append(names, s.Name())
	}
	want := []string{"floor", "posthaste-sync", "posthaste-strict", "posthaste-skip-locked"}
	if !slices.Equal(names, want) {
		t.Errorf("chose %q, want %q", names, want)
	}
}

// Every bar is of a subject that a scenario has by default, so a run of all has figures for it.
func TestBarsAreMeasured(t *testing.T) {
	o := options{rounds: 1}
	usual, needed := map[string]bool{}, map[string]bool{}
	for _, bars := range []bool{false, true} {
		o.bars = bars
		r, err := newRunner(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range r.turns() {
			map[bool]map[string]bool{false: usual, true: needed}[bars][turn.what()] = true
		}
	}
	for _, b := range bars() {
		for _, subject := range []string{b.subject, b.to} {
			if what := b.scenario + ": " + subject; subject != "" && (!usual[what] || !needed[what]) {
				t.Errorf("%s is measured by default %v, for bars %v", what, usual[what], needed[what])
			}
		}
	}
	if len(needed) >= len(usual) {
		t.Errorf("bars need %d measurements, all are %d", len(needed), len(usual))
	}
}

// Each scenario names subjects that are there and that can do its work.
func TestUsualSubjects(t *testing.T) {
	var o options
	for _, scenario := range o.allScenarios() {
		for _, name := range scenario.usual {
			subjects, err := choose("subject", name, o.allSubjects())
			if err != nil || !scenario.takes(subjects[0], o) {
				t.Errorf("%s: %s does not take part, %v", scenario.name, name, err)
			}
		}
	}
}
