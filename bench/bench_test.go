package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

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

// A small run through all of it, but for the relay of this project, which is built elsewhere.
func TestRun(t *testing.T) {
	testenv.Require(t, testenv.DatabaseURL)
	testenv.Require(t, testenv.KafkaBrokers)
	o, err := parse([]string{"--events", "10000", "--rounds", "1", "--rate", "200", "--steady", "1s", "--warm", "0"})
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := choose("subject", "handwritten-50,mark-bound", o.allSubjects())
	if err != nil {
		t.Fatal(err)
	}
	r := runner{options: o, subjects: subjects, scenarios: o.allScenarios()}
	report, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var figures []string
	for _, one := range report.Results {
		if len(one.Values) != 1 || one.Median <= 0 {
			t.Errorf("%s %s %s: values %v", one.Scenario, one.Subject, one.Name, one.Values)
		}
		if one.Subject == "handwritten-50" && one.Ratio != 1 {
			t.Errorf("%s of the first subject has ratio %f, want 1", one.Name, one.Ratio)
		}
		figures = append(figures, one.Scenario+" "+one.Subject+" "+one.Name)
	}
	want := []string{
		"drain handwritten-50 drain", "drain handwritten-50 relay cpu",
		"drain mark-bound drain", "drain mark-bound relay cpu",
		"held-xmin handwritten-50 free", "held-xmin handwritten-50 held", "held-xmin handwritten-50 kept",
		"steady handwritten-50 p50", "steady handwritten-50 p99", "steady handwritten-50 max",
		"steady handwritten-50 load", "steady handwritten-50 relay cpu",
	}
	if !slices.Equal(figures, want) {
		t.Errorf("figures\n%s\nwant\n%s", strings.Join(figures, "\n"), strings.Join(want, "\n"))
	}
}

func TestVerdict(t *testing.T) {
	record := func(id, key, value string, partition int32) *kgo.Record {
		return &kgo.Record{
			Key: []byte(key), Value: []byte(value), Partition: partition,
			Headers: []kgo.RecordHeader{{Key: "event_id", Value: []byte(id)}},
		}
	}
	a, b, c := record("a", "k", "1", 0), record("b", "k", "2", 0), record("c", "l", "3", 1)
	tests := map[string]struct {
		records []*kgo.Record
		want    string // empty if sound
	}{
		"sound":                   {[]*kgo.Record{a, b, c}, ""},
		"another key in between":  {[]*kgo.Record{a, c, b}, ""},
		"lost":                    {[]*kgo.Record{a, b}, "1 events lost, 0 repeated or unknown, 0 changed, 0 re"},
		"repeated":                {[]*kgo.Record{a, b, c, a}, "0 events lost, 1 repeated or unknown, 0 changed, 0 re"},
		"unknown":                 {[]*kgo.Record{a, b, c, record("x", "k", "1", 0)}, "0 events lost, 1 repeated"},
		"without id":              {[]*kgo.Record{a, b, c, {}}, "0 events lost, 1 repeated or unknown"},
		"changed":                 {[]*kgo.Record{a, b, record("c", "l", "3.0", 1)}, "1 changed, 0 reordered"},
		"reordered":               {[]*kgo.Record{b, a, c}, "0 changed, 1 reordered"},
		"a key on two partitions": {[]*kgo.Record{a, record("b", "k", "2", 1), c}, "0 changed, 1 reordered"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := verdict{
				open:  map[string]event{"a": {1, "k", "1"}, "b": {2, "k", "2"}, "c": {3, "l", "3"}},
				lines: map[string]line{},
			}
			for _, rec := range test.records {
				v.take(rec)
			}
			switch err := v.err(); {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	subjects := options{}.allSubjects()
	var r report
	for _, values := range [][2]float64{{100, 250}, {300, 500}, {200, 600}} {
		r.add("drain", "posthaste", []Figure{{"drain", "events/s", values[1]}})
		r.add("drain", "handwritten-50", []Figure{{"drain", "events/s", values[0]}})
	}
	r.order(subjects)
	if one := r.Results[1]; one.Subject != "posthaste" || one.Median != 500 || one.Ratio != 2.5 {
		t.Errorf("second result %+v, want posthaste with median 500 and ratio 2.5", one)
	}
	var table, data bytes.Buffer
	if err := r.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(table.String()); !slices.Contains(fields, "2.50") {
		t.Errorf("the table lacks the ratio:\n%s", &table)
	}
	if err := r.writeJSON(&data); err != nil {
		t.Fatal(err)
	}
	var again report
	if err := json.Unmarshal(data.Bytes(), &again); err != nil || len(again.Results) != 2 {
		t.Errorf("JSON gives %d results, %v; want 2", len(again.Results), err)
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]string{
		"--rounds 0":                   "--rounds",
		"--events 1":                   "--events",
		"--rate 0":                     "--rate",
		"--steady 1ms":                 "--steady",
		"drain":                        "not understood",
		"--subjects posthaste,nothing": `no "nothing"`,
		"--scenarios draining":         `no "draining"`,
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			args := append(strings.Fields(args), "--database", "postgres://localhost:1/none", "--kafka", "localhost:1")
			if strings.HasPrefix(args[0], "drain") {
				args = append(args[1:], args[0])
			}
			if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{2.5: {4, 1, 3, 2}, 3: {9, 3, 1}, 7: {7}} {
		if m := median(values); m != want {
			t.Errorf("median of %v is %f, want %f", values, m, want)
		}
	}
}
