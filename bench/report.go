package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// report is what a run has measured.
type report struct {
	Machine    string   `json:"machine"`
	PostgreSQL string   `json:"postgresql"`
	Fsync      string   `json:"fsync"` // off makes commits free, which favours who commits often
	Brokers    int      `json:"brokers"`
	Rounds     int      `json:"rounds"`
	Events     int      `json:"events"`
	Rate       int      `json:"rate"`
	Results    []result `json:"results"`
}

// result is one figure of one subject.
type result struct {
	Scenario string    `json:"scenario"`
	Subject  string    `json:"subject"`
	Name     string    `json:"figure"`
	Unit     string    `json:"unit"`
	Values   []float64 `json:"values"` // one a round
	Median   float64   `json:"median"`
	Ratio    float64   `json:"ratio"` // to the first subject that has the figure
}

// describe says on what the figures were taken.
func (r runner) describe(ctx context.Context, report *report) error {
	db, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer db.Close(ctx)
	err = db.QueryRow(ctx, `select current_setting('server_version'), current_setting('fsync')`).
		Scan(&report.PostgreSQL, &report.Fsync)
	if err != nil {
		return fmt.Errorf("ask database for its version: %w", err)
	}
	report.Machine = fmt.Sprintf("%s/%s, %d cores, %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	report.Brokers = strings.Count(r.brokers, ",") + 1
	report.Rounds, report.Events, report.Rate = r.rounds, r.events, r.rate
	return nil
}

func (r *report) add(scenario, subject string, figures []Figure) {
	for _, f := range figures {
		i := slices.IndexFunc(r.Results, func(old result) bool {
			return old.Scenario == scenario && old.Subject == subject && old.Name == f.Name
		})
		if i < 0 {
			i = len(r.Results)
			r.Results = append(r.Results, result{Scenario: scenario, Subject: subject, Name: f.Name, Unit: f.Unit})
		}
		r.Results[i].Values = append(r.Results[i].Values, f.Value)
	}
}

// order brings the results into the order of the subjects, whatever order they were measured in, and works out medians
// and ratios.
func (r *report) order(subjects []Subject) {
	place := func(name string) int {
		return slices.IndexFunc(subjects, func(s Subject) bool { return s.Name() == name })
	}
	slices.SortStableFunc(r.Results, func(a, b result) int {
		if a.Scenario != b.Scenario {
			return 0
		}
		return place(a.Subject) - place(b.Subject)
	})
	base := map[string]float64{}
	for i := range r.Results {
		one := &r.Results[i]
		one.Median = median(slices.Clone(one.Values))
		figure := one.Scenario + " " + one.Name
		if _, ok := base[figure]; !ok {
			base[figure] = one.Median
		}
		one.Ratio = one.Median / base[figure]
	}
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// writeTable writes one table a scenario: a line a subject, each figure with its ratio.
func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s; PostgreSQL %s, fsync %s; Kafka with %d broker(s)\n",
		r.Machine, r.PostgreSQL, r.Fsync, r.Brokers)
	fmt.Fprintf(w, "medians of %d round(s); x: ratio to the first line; every event that was shipped arrived once, "+
		"unchanged, in the order of its key\n", r.Rounds)
	for _, scenario := range r.scenarios() {
		fmt.Fprintln(w)
		if err := r.writeScenario(w, scenario); err != nil {
			return err
		}
	}
	return nil
}

// scenarios lists them in the order in which they were measured.
func (r *report) scenarios() []string {
	var names []string
	for _, one := range r.Results {
		if !slices.Contains(names, one.Scenario) {
			names = append(names, one.Scenario)
		}
	}
	return names
}

func (r *report) writeScenario(w io.Writer, scenario string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var line strings.Builder
	subject := ""
	flush := func() {
		if line.Len() > 0 {
			fmt.Fprintln(table, line.String())
		}
		line.Reset()
	}
	header := scenario + "\t"
	for _, one := range r.Results {
		if one.Scenario != scenario {
			continue
		}
		if subject == "" {
			subject = one.Subject
		}
		if one.Subject == subject {
			header += fmt.Sprintf("%s %s\tx\t", one.Name, one.Unit)
		}
	}
	fmt.Fprintln(table, header)
	subject = ""
	for _, one := range r.Results {
		if one.Scenario != scenario {
			continue
		}
		if one.Subject != subject {
			flush()
			subject = one.Subject
			fmt.Fprintf(&line, "%s\t", subject)
		}
		fmt.Fprintf(&line, "%s\t%.2f\t", number(one.Median), one.Ratio)
	}
	flush()
	return table.Flush()
}
