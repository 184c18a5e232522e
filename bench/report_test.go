package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// example is a report of two subjects in two scenarios, one of which failed one.
func example() *report {
	r := newReport()
	r.Subjects = []string{"handwritten-50", "posthaste", "floor"}
	r.Scenarios = []described{{"drain", "a backlog"}, {"steady-1k", "a load"}}
	steady := func(subject string, p50, p99 float64) {
		r.add("steady-1k", subject, []Figure{
			{Name: "p50", Unit: "ms", Value: p50}, {Name: "p99", Unit: "ms", Value: p99},
		})
	}
	steady("floor", 2, 14)
	for _, values := range [][2]float64{{100, 250}, {300, 500}, {200, 600}} {
		r.add("drain", "posthaste", []Figure{{Name: "drain", Unit: "events/s", Value: values[1]}})
		r.add("drain", "handwritten-50", []Figure{
			{Name: "drain", Unit: "events/s", Value: values[0]}, {Name: "of", Unit: "events", Value: 9, Plain: true},
		})
	}
	steady("posthaste", 2.5, 30)
	steady("handwritten-50", 8, 21)
	r.fail("steady-1k", "handwritten-50", 1, errors.New("it lost events"))
	return r
}

func TestReport(t *testing.T) {
	r := example()
	if one := r.Results[2]; one.Subject != "posthaste" || one.Median != 500 || one.Ratio != 2.5 {
		t.Errorf("third result %+v, want posthaste with median 500 and ratio 2.5", one)
	}
	var table bytes.Buffer
	if err := r.writeTables(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" 2.50", "FAILED in round 2: steady-1k: handwritten-50: it lost events", "MISSED", "holds",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, &table)
		}
	}
	file := filepath.Join(t.TempDir(), "results.json")
	if err := r.save(file); err != nil {
		t.Fatal(err)
	}
	again, err := loadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	var same bytes.Buffer
	if err := again.writeTables(&same); err != nil || same.String() != table.String() {
		t.Errorf("what was saved reads %v\n%s\nnot\n%s", err, &same, &table)
	}
}

func TestBars(t *testing.T) {
	found := map[string]bool{}
	for _, b := range example().bars() {
		found[b.what] = b.holds
	}
	want := map[string]bool{
		"drain: drain of posthaste, to that of handwritten-50":  false,
		"steady-1k: p50 of posthaste, above the 2 ms of floor":  true,
		"steady-1k: p99 of posthaste, above the 14 ms of floor": false,
	}
	for what, holds := range want {
		if got, ok := found[what]; !ok || got != holds {
			t.Errorf("%s: there %v, holds %v; want %v", what, ok, got, holds)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d bars, want the %d that there are figures for", len(found), len(want))
	}
}

func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const text = `# Kept
<!-- bench plot drain -->
old
<!-- end -->
kept, too
<!-- bench steady-1k -->
<!-- end -->
<!-- bench burst -->
old
<!-- end -->
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time finds what the first has written
		if err := example().writePage(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Kept
<!-- bench plot drain -->
![Draining a backlog](page/drain.svg)
<!-- end -->
kept, too
<!-- bench steady-1k -->
|  | p50, ms | x | p99, ms | x |
|---|---|---|---|---|
| **posthaste** | 2.5 | 1.00 | 30 | 1.00 |
| floor | 2 | 0.80 | 14 | 0.47 |

handwritten-50 failed in round 2.
<!-- end -->
<!-- bench burst -->
Not measured in this run.
<!-- end -->
`
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "page", "drain.svg")); err != nil {
		t.Error(err)
	}
	for wrong, why := range map[string]string{
		"<!-- bench nothing -->\n<!-- end -->\n":      `no part "nothing"`,
		"<!-- bench plot x -->\n<!-- end -->\n":       `no plot "x"`,
		"<!-- bench drain -->\n":                      "has no end",
		"<!-- bench drain -->\n<!-- bench lone -->\n": "before",
	} {
		if _, err := (page{example(), t.TempDir()}).fill(wrong); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("page %q: %v, want %q", wrong, err, why)
		}
	}
}

// The page that is kept in the repository has a part for every scenario and every plot.
func TestPageHasAll(t *testing.T) {
	text, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{"run", "bars"}
	for _, s := range (options{}).allScenarios() {
		parts = append(parts, s.name)
	}
	for _, p := range pictures() {
		parts = append(parts, "plot "+p.name)
	}
	for _, part := range parts {
		if !bytes.Contains(text, []byte(partBegins+part+" -->\n")) {
			t.Errorf("docs/benchmarks.md has no part %q", part)
		}
	}
	p := page{example(), t.TempDir()}
	if _, err := p.fill(string(text)); err != nil {
		t.Error(err)
	}
}

// Every plot shows figures that its scenarios have, as XML that can be read.
func TestPlots(t *testing.T) {
	r := newReport()
	r.Subjects = []string{"posthaste", "floor"}
	for _, picture := range pictures() {
		for _, view := range picture.panels {
			if _, err := choose("scenario", view.scenario, (options{}).allScenarios()); err != nil {
				t.Errorf("plot %s: %v", picture.name, err)
			}
			r.add(view.scenario, "posthaste", []Figure{{Name: view.figure, Unit: "ms", Value: 2}})
			if view.to != "" {
				r.add(view.scenario, "posthaste", []Figure{{Name: view.to, Unit: "ms", Value: 30}})
			}
		}
		chart, ok := r.chart(picture)
		if !ok || len(chart.Panels) != len(picture.panels) {
			t.Errorf("plot %s has %d panels, want %d", picture.name, len(chart.Panels), len(picture.panels))
		}
		for d := xml.NewDecoder(bytes.NewReader(chart.SVG())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("plot %s: %v", picture.name, err)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{2.5: {4, 1, 3, 2}, 3: {9, 3, 1}, 7: {7}} {
		if m := median(values); m != want {
			t.Errorf("median of %v is %f, want %f", values, m, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for n := range 15 {
		all = append(all, time.Duration(n+1))
	}
	if p50, p99 := percentile(all, 50), percentile(all, 99); p50 != 8 || p99 != 15 {
		t.Errorf("of 1 to 15 p50 is %d and p99 %d, want 8 and 15", p50, p99)
	}
	if one := percentile(all[:1], 50); one != 1 {
		t.Errorf("of 1 p50 is %d", one)
	}
}

func TestDigits(t *testing.T) {
	for want, v := range map[string]float64{
		"0.123": 0.1234, "12.3": 12.34, "123": 123.4, "1,234": 1234, "-1,234,567": -1234567,
	} {
		if got := digits(v); got != want {
			t.Errorf("digits(%f) = %s, want %s", v, got, want)
		}
	}
}
