package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A page has parts that the bench writes, from a line `<!-- bench NAME -->` to the next line `<!-- end -->`. NAME is a
// scenario, "run" for what was measured on what, "bars", or "plot NAME".
const (
	partBegins = "<!-- bench "
	partEnds   = "<!-- end -->"
)

// writePage writes the marked parts of a Markdown file anew, and the plots that it shows into a folder beside it. What
// the report has no figures for says so, so that a page never mixes runs.
func (r *report) writePage(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	p := page{report: r, folder: strings.TrimSuffix(file, ".md")}
	out, err := p.fill(string(text))
	if err != nil {
		return fmt.Errorf("write page %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

type page struct {
	report *report
	folder string // of the plots
}

func (p page) fill(text string) (string, error) {
	var out strings.Builder
	open := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		name, begins := strings.CutPrefix(trimmed, partBegins)
		switch {
		case begins && open != "":
			return "", fmt.Errorf("%q begins before %q has ended", name, open)
		case begins:
			open = strings.TrimSuffix(name, " -->")
			part, err := p.part(open)
			if err != nil {
				return "", err
			}
			out.WriteString(line + part)
		case trimmed == partEnds && open != "":
			open = ""
			out.WriteString(line)
		case open == "":
			out.WriteString(line)
		}
	}
	if open != "" {
		return "", fmt.Errorf("%q has no end: want a line %s", open, partEnds)
	}
	return out.String(), nil
}

// part is what stands between the marks of a name.
func (p page) part(name string) (string, error) {
	r := p.report
	if plot, ok := strings.CutPrefix(name, "plot "); ok {
		return p.plot(plot)
	}
	switch name {
	case "run":
		return r.about() + "\n", nil
	case "bars":
		return markdown(r.barLines()), nil
	}
	if !slices.ContainsFunc((options{}).allScenarios(), func(s Scenario) bool { return s.name == name }) {
		return "", fmt.Errorf("there is no part %q", name)
	}
	if len(r.of(name)) == 0 {
		return "Not measured in this run.\n", nil
	}
	text := markdown(r.grid(name).table())
	for _, f := range r.Failures {
		if f.Scenario == name {
			text += fmt.Sprintf("\n%s failed in round %d.\n", f.Subject, f.Round)
		}
	}
	return text, nil
}

// plot draws a picture into its file and shows it.
func (p page) plot(name string) (string, error) {
	i := slices.IndexFunc(pictures(), func(one picture) bool { return one.name == name })
	if i < 0 {
		return "", fmt.Errorf("there is no plot %q", name)
	}
	file := filepath.Join(p.folder, name+".svg")
	chart, ok := p.report.chart(pictures()[i])
	if !ok {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return "Not measured in this run.\n", nil
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(file, chart.SVG(), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("![%s](%s/%s.svg)\n", chart.Title, filepath.Base(p.folder), name), nil
}

// markdown writes a table whose first line is its head; subjects of our own stand out.
func markdown(lines [][]string) string {
	var out strings.Builder
	for i, line := range lines {
		if strings.HasPrefix(line[0], "posthaste") {
			line = append([]string{"**" + line[0] + "**"}, line[1:]...)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			out.WriteString("|---|" + strings.Repeat("---|", len(line)-1) + "\n")
		}
	}
	return out.String()
}
