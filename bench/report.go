package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// report is what a run has measured. It is what --save writes and --from reads.
type report struct {
	Date       string      `json:"date"`
	Machine    string      `json:"machine"`
	PostgreSQL string      `json:"postgresql"`
	Fsync      string      `json:"fsync"` // off makes commits free, which favours who commits often
	Brokers    int         `json:"brokers"`
	Rounds     int         `json:"rounds"`
	Size       size        `json:"size"`
	Seconds    float64     `json:"seconds"`
	Subjects   []string    `json:"subjects"` // in their order
	Scenarios  []described `json:"scenarios"`
	Results    []result    `json:"results"`
	Failures   []failure   `json:"failures"`
}

// described is a scenario and what it is.
type described struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// result is one figure of one subject.
type result struct {
	Scenario string    `json:"scenario"`
	Subject  string    `json:"subject"`
	Name     string    `json:"figure"`
	Unit     string    `json:"unit"`
	Plain    bool      `json:"plain,omitempty"` // see Figure
	Values   []float64 `json:"values"`          // one a round
	Median   float64   `json:"median"`
	Ratio    float64   `json:"ratio"` // to the first subject that has the figure
}

// failure is a subject that could not do the work of a scenario. It has no figures there.
type failure struct {
	Scenario string `json:"scenario"`
	Subject  string `json:"subject"`
	Round    int    `json:"round"` // from 1 on
	Error    string `json:"error"`
}

// newReport is one with nothing in it, which is still something in JSON.
func newReport() *report { return &report{Results: []result{}, Failures: []failure{}} }

// describe says on what the figures are taken.
func (r *runner) describe(ctx context.Context) (*report, error) {
	report := newReport()
	report.Date = time.Now().UTC().Format(time.DateOnly)
	report.Machine = fmt.Sprintf("%s/%s, %d cores, %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	report.Brokers = strings.Count(r.brokers, ",") + 1
	report.Rounds, report.Size = r.rounds, r.size
	err := r.withServer(ctx, func(db *pgx.Conn) error {
		return db.QueryRow(ctx, `select current_setting('server_version'), current_setting('fsync')`).
			Scan(&report.PostgreSQL, &report.Fsync)
	})
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return report, nil
}

func (r *report) add(scenario, subject string, figures []Figure) {
	for _, f := range figures {
		i := slices.IndexFunc(r.Results, func(old result) bool {
			return old.Scenario == scenario && old.Subject == subject && old.Name == f.Name
		})
		if i < 0 {
			i = len(r.Results)
			r.Results = append(r.Results,
				result{Scenario: scenario, Subject: subject, Name: f.Name, Unit: f.Unit, Plain: f.Plain})
		}
		r.Results[i].Values = append(r.Results[i].Values, f.Value)
	}
	r.order()
}

// fail notes a failure and takes back what the subject had in the scenario.
func (r *report) fail(scenario, subject string, round int, err error) {
	r.Failures = append(r.Failures, failure{scenario, subject, round + 1, err.Error()})
	r.Results = slices.DeleteFunc(r.Results, func(one result) bool {
		return one.Scenario == scenario && one.Subject == subject
	})
	r.order()
}

func (r *report) hasFailed(scenario, subject string) bool {
	return slices.ContainsFunc(r.Failures, func(f failure) bool {
		return f.Scenario == scenario && f.Subject == subject
	})
}

// failed is the error of a run in which something failed.
func (r *report) failed() error {
	if len(r.Failures) == 0 {
		return nil
	}
	return fmt.Errorf("%d measurements failed, see the end of the report", len(r.Failures))
}

// order brings the results into the order of scenarios and subjects, whatever order they were measured in, and works
// out medians and ratios.
func (r *report) order() {
	scenario := func(name string) int {
		return slices.IndexFunc(r.Scenarios, func(d described) bool { return d.Name == name })
	}
	slices.SortStableFunc(r.Results, func(a, b result) int {
		if d := scenario(a.Scenario) - scenario(b.Scenario); d != 0 {
			return d
		}
		return slices.Index(r.Subjects, a.Subject) - slices.Index(r.Subjects, b.Subject)
	})
	base := map[string]float64{}
	for i := range r.Results {
		one := &r.Results[i]
		one.Median = median(slices.Clone(one.Values))
		figure := one.Scenario + " " + one.Name
		if _, ok := base[figure]; !ok {
			base[figure] = one.Median
		}
		one.Ratio = 0
		if base[figure] != 0 && !one.Plain {
			one.Ratio = one.Median / base[figure]
		}
	}
}

// find returns a subject's figure, if it was measured.
func (r *report) find(scenario, subject, figure string) (result, bool) {
	i := slices.IndexFunc(r.Results, func(one result) bool {
		return one.Scenario == scenario && one.Subject == subject && one.Name == figure
	})
	if i < 0 {
		return result{}, false
	}
	return r.Results[i], true
}

// of are the results of a scenario.
func (r *report) of(scenario string) []result {
	var all []result
	for _, one := range r.Results {
		if one.Scenario == scenario {
			all = append(all, one)
		}
	}
	return all
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// save writes the file in one step, so that an interrupt leaves an old one or a new one. Without a name it does
// nothing.
func (r *report) save(file string) error {
	if file == "" {
		return nil
	}
	var text bytes.Buffer
	err := r.writeJSON(&text)
	if err == nil {
		err = os.WriteFile(file+".new", text.Bytes(), 0o644)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	return nil
}

func loadReport(file string) (*report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read results: %s: %w", file, err)
	}
	if len(r.Results) == 0 {
		return nil, errors.New("read results: " + file + " has none")
	}
	r.order()
	return &r, nil
}

// digits prints three digits that say something, or all of a larger number.
func digits(v float64) string {
	if math.Abs(v) < 0.001 {
		return "0"
	}
	if math.Abs(v) < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// median of the values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
