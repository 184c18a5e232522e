//go:build unix

package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check reads Kafka from the beginning, by a consumer of its own, and compares.
func (d *demo) check(ctx context.Context, begun time.Time) error {
	var v *verdict
	err := d.progress.step("check", words("reading Kafka from the beginning"), func() (string, error) {
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := d.consumer.catchUp(bounded); err != nil { // the one that took the times
			return "", err
		}
		fresh, err := follow(d.cfg, d.service.topics)
		if err != nil {
			return "", err
		}
		err = fresh.catchUp(bounded)
		fresh.close()
		if err != nil {
			return "", err
		}
		table, err := readTable(bounded, d.db, d.table)
		if err != nil {
			return "", err
		}
		l := &d.service.ledger
		v = judge(history{l.committed, l.rolledBack, table, fresh.records, d.blow.open})
		return fmt.Sprintf("%s records, %s rows, and the service's own ledger compared",
			grouped(len(fresh.records)), grouped(len(table))), nil
	})
	if err != nil {
		return err
	}
	d.print(v)
	if err := v.err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.Out, "\nPassed in %.1f s.\n", time.Since(begun).Seconds())
	return err
}

// print writes the table.
func (d *demo) print(v *verdict) {
	l := &d.service.ledger
	line := func(name string, value string, format string, args ...any) {
		text := fmt.Sprintf("  %-12s %10s  %s", name, value, fmt.Sprintf(format, args...))
		_, _ = fmt.Fprintln(d.Out, strings.TrimRight(text, " "))
	}
	calm, all := d.latencies()
	rate := float64(len(l.committed)-orders) / d.service.took.Seconds()
	_, _ = fmt.Fprintln(d.Out)
	line("written", grouped(len(l.committed)), "events in %s transactions", grouped(l.commits))
	line("rolled back", grouped(len(l.rolledBack)), "events in %s transactions", grouped(l.rollBacks))
	line("delivered", grouped(v.delivered), "")
	line("lost", grouped(v.lost), "")
	line("phantom", grouped(v.phantom), "delivered though rolled back or never written")
	line("reordered", grouped(v.reordered), "within an order")
	line("duplicated", grouped(v.duplicated), "at most the %s that the killed relay had not marked",
		grouped(len(d.blow.open)))
	line("events/s", grouped(int(rate+0.5)), "--rate wanted %s", grouped(d.Rate))
	line("p50 / p99", calm.String(), "ms from commit to consumer, before the kill")
	line("p50 / p99", all.String(), "with the take-over of %.1f s", d.blow.takeOver.Seconds())
}

// latency holds durations from a commit to the consumer, sorted.
type latency []time.Duration

// latencies returns those of the events before the kill and those of all.
func (d *demo) latencies() (calm, all latency) {
	f := d.consumer
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range d.service.ledger.committed {
		at, ok := f.arrived[e.id]
		if !ok || e.committed.Before(d.service.began) { // the orders that were placed first woke the relays up
			continue
		}
		took := max(0, at.Sub(e.committed)) // a record may be there before its writer hears of the commit
		all = append(all, took)
		if at.Before(d.blow.at) {
			calm = append(calm, took)
		}
	}
	slices.SortFunc(calm, cmp.Compare)
	slices.SortFunc(all, cmp.Compare)
	return calm, all
}

func (l latency) String() string {
	if len(l) == 0 {
		return "-"
	}
	at := func(share float64) float64 {
		return float64(l[int(share*float64(len(l)-1))]) / float64(time.Millisecond)
	}
	return fmt.Sprintf("%.0f / %.0f", at(0.50), at(0.99))
}

// grouped prints 12345 as 12,345.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
