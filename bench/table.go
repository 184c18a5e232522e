package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// grid is a scenario as a table: a line a subject, a column a figure.
type grid struct {
	columns []result // for name, unit and whether it is plain
	lines   []string // subjects
	cells   map[[2]string]result
}

func (r *report) grid(scenario string) grid {
	g := grid{cells: map[[2]string]result{}}
	for _, one := range r.of(scenario) {
		if !slices.Contains(g.lines, one.Subject) {
			g.lines = append(g.lines, one.Subject)
		}
		if !slices.ContainsFunc(g.columns, func(c result) bool { return c.Name == one.Name }) {
			g.columns = append(g.columns, one)
		}
		g.cells[[2]string{one.Subject, one.Name}] = one
	}
	return g
}

// wide tells that the table has more columns than lines fit a page with: it is written with figures as lines.
func (g grid) wide() bool { return len(g.columns) > 6 && len(g.columns) > len(g.lines) }

// table returns the cells as text, the first line and column being heads.
func (g grid) table() [][]string {
	head := []string{""}
	for _, c := range g.columns {
		head = append(head, c.Name+", "+c.Unit)
		if !c.Plain {
			head = append(head, "x")
		}
	}
	lines := [][]string{head}
	for _, subject := range g.lines {
		line := []string{subject}
		for _, c := range g.columns {
			cell, ok := g.cells[[2]string{subject, c.Name}]
			value, ratio := "", ""
			if ok {
				value = digits(cell.Median)
			}
			if cell.Ratio > 0 {
				ratio = fmt.Sprintf("%.2f", cell.Ratio)
			}
			line = append(line, value)
			if !c.Plain {
				line = append(line, ratio)
			}
		}
		lines = append(lines, line)
	}
	if g.wide() {
		return g.turned()
	}
	return lines
}

// turned is table with subjects as columns. There are no ratios in it.
func (g grid) turned() [][]string {
	lines := [][]string{append([]string{""}, g.lines...)}
	for _, c := range g.columns {
		line := []string{c.Name + ", " + c.Unit}
		for _, subject := range g.lines {
			value := ""
			if cell, ok := g.cells[[2]string{subject, c.Name}]; ok {
				value = digits(cell.Median)
			}
			line = append(line, value)
		}
		lines = append(lines, line)
	}
	return lines
}

// about says what was measured on what.
func (r *report) about() string {
	return fmt.Sprintf("%s: %s; PostgreSQL %s, fsync %s; Kafka with %d broker(s), three for slow-broker. "+
		"Medians of %d round(s), %s in all.", r.Date, r.Machine, r.PostgreSQL, r.Fsync, r.Brokers, r.Rounds,
		(time.Duration(r.Seconds) * time.Second).Round(time.Minute/6))
}

// writeTables writes the whole report for a terminal.
func (r *report) writeTables(w io.Writer) error {
	fmt.Fprintln(w, r.about())
	fmt.Fprintln(w, "x: ratio to the first line; every event that was shipped arrived once, unchanged, in the order of",
		"its key")
	for _, s := range r.Scenarios {
		if len(r.of(s.Name)) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.About)
		if err := align(w, r.grid(s.Name).table()); err != nil {
			return err
		}
	}
	if lines := r.barLines(); len(lines) > 1 {
		fmt.Fprintln(w, "\nbars")
		if err := align(w, lines); err != nil {
			return err
		}
	}
	for _, f := range r.Failures {
		fmt.Fprintf(w, "\nFAILED in round %d: %s: %s: %s\n", f.Round, f.Scenario, f.Subject, f.Error)
	}
	return nil
}

func align(w io.Writer, lines [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(table, strings.TrimRight(strings.Join(line, "\t"), "\t"))
	}
	return table.Flush()
}
