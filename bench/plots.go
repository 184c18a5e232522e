package main

import (
	"slices"
	"strings"

	"posthaste.dev/posthaste/bench/internal/plot"
)

// picture is a chart of some of a report's figures.
type picture struct {
	name, title, note string
	columns           int
	panels            []view
}

// view is a panel: a figure of a scenario, or a span from one to another.
type view struct{ title, scenario, figure, to string }

// pictures are all charts, in the order of the page.
func pictures() []picture {
	const rates = "events a second; bars are medians, whiskers the least and the most of all rounds"
	const times = "ms from the commit's return to a consumer's hands: p50 (full) to p99 (hollow), on a logarithmic axis"
	return []picture{
		{"drain", "Draining a backlog", rates, 2, []view{
			{"1,000 keys", "drain", "drain", ""}, {"100,000 keys", "drain-100k-keys", "drain", ""},
		}},
		{"cost", "What an event costs while a backlog drains", "less is better", 2, []view{
			{"processor time of the relay", "drain", "relay CPU", ""},
			{"processor time of PostgreSQL", "drain", "PostgreSQL CPU", ""},
			{"write-ahead log", "drain", "WAL", ""},
			{"most memory that the relay had", "drain", "relay memory", ""},
		}},
		{"latency", "Latency under a steady load", times, 2, []view{
			{"1,000 events/s, one a transaction", "steady-1k", "p50", "p99"},
			{"5,000 events/s, ten a transaction", "steady-5k", "p50", "p99"},
			{"10,000 events/s, ten a transaction", "steady-10k", "p50", "p99"},
		}},
		{"idle", "After and while doing nothing", times + " (above)", 2, []view{
			{"an event alone", "lone", "p50", "p99"}, {"many at once", "burst", "p50", "p99"},
			{"processor time of relay and backends", "idle", "together", ""}, {"statements", "idle", "statements", ""},
		}},
		{"relays", "Several relays on one outbox", rates, 2, []view{
			{"one", "relays", "by 1", ""}, {"two", "relays", "by 2", ""}, {"four", "relays", "by 4", ""},
		}},
		{"many-topics", "Draining a backlog of many topics", rates, 1, []view{{"", "many-topics", "drain", ""}}},
		{"slow-broker", "Three brokers at the end of a longer network",
			"left: a backlog, in events a second; right: ms from commit to consumer at 1,000 events/s, p50 to p99", 2,
			[]view{
				{"as it is", "slow-broker", "+0 ms: drain", ""}, {"", "slow-broker", "+0 ms: p50", "+0 ms: p99"},
				{"5 ms more a round trip", "slow-broker", "+5 ms: drain", ""},
				{"", "slow-broker", "+5 ms: p50", "+5 ms: p99"},
				{"50 ms more a round trip", "slow-broker", "+50 ms: drain", ""},
				{"", "slow-broker", "+50 ms: p50", "+50 ms: p99"},
			}},
		{"held-xmin", "A backlog beside a transaction that stays open", rates, 2, []view{
			{"without it", "held-xmin", "free", ""}, {"beside it", "held-xmin", "held", ""},
		}},
		{"writers-cost", "What the outbox takes from the writers", "commits a second of eight writers", 2, []view{
			{"no event", "writers-cost", "no event", ""}, {"with an event", "writers-cost", "with one", ""},
			{"and a relay", "writers-cost", "and the relay", ""},
		}},
	}
}

// least is the lowest latency in ms that a logarithmic axis has room for; one can be below zero.
const least = 0.1

// chart draws a picture, of the panels that there are figures for; false if there are none.
func (r *report) chart(p picture) (plot.Chart, bool) {
	c := plot.Chart{Title: p.title, Note: p.note, Columns: p.columns}
	for _, v := range p.panels {
		panel := plot.Panel{Title: v.title}
		for _, one := range r.of(v.scenario) {
			if one.Name != v.figure {
				continue
			}
			panel.Unit = one.Unit
			row := plot.Row{Label: one.Subject, Kind: kindOf(one.Subject), Value: one.Median,
				Low: slices.Min(one.Values), High: slices.Max(one.Values)}
			if v.to != "" {
				far, ok := r.find(v.scenario, one.Subject, v.to)
				if !ok {
					continue
				}
				row.Value, row.To = max(row.Value, least), max(far.Median, least)
			}
			panel.Rows = append(panel.Rows, row)
		}
		if len(panel.Rows) > 0 {
			c.Panels = append(c.Panels, panel)
		}
	}
	return c, len(c.Panels) > 0
}

func kindOf(subject string) plot.Kind {
	switch {
	case subject == "posthaste" || subject == "posthaste-wakeup":
		return plot.Ours
	case strings.HasPrefix(subject, "posthaste-"):
		return plot.Mode
	case slices.Contains([]string{"mark-bound", "ceiling", "floor"}, subject):
		return plot.Bound
	}
	return plot.Other
}
