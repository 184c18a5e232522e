package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

// statusPrinter writes a status for people: a word, then what there is to say of it.
type statusPrinter struct {
	screen term.Screen
	out    *strings.Builder
}

func (p statusPrinter) line(word, format string, args ...any) {
	fmt.Fprintf(p.out, "%s %s\n", p.screen.Bold(fmt.Sprintf("%-9s", word)), fmt.Sprintf(format, args...))
}

func (p statusPrinter) print(s *postgres.Status, attention []string) {
	standby := ""
	if s.Standby {
		standby = ", a standby: it may lag, and shows neither open writers nor whether a relay is gone"
	}
	p.line("database", "%s, PostgreSQL %s, %s%s", s.Outbox.Server.Database, serverVersion(s.Outbox.Server),
		s.Now.UTC().Format("2006-01-02 15:04:05 MST"), standby)
	p.line("outbox", "%s", s.Outbox.Names.Table)
	p.backlog(s)
	p.relays(s)
	p.parked(s)
	p.writers(s)
	for _, w := range s.Outbox.Warnings {
		p.line("warning", "%s; %s", p.screen.Warn(w.Cause), w.Fix)
	}
	for _, text := range attention {
		p.line("attention", "%s", p.screen.Bad(text))
	}
	if len(attention) == 0 {
		p.line("attention", "%s", p.screen.Good("none needed"))
	}
}

func (p statusPrinter) backlog(s *postgres.Status) {
	b := s.Backlog
	if b == nil {
		p.line("backlog", "unknown: %s", s.Uncounted)
		return
	}
	switch {
	case b.Capped && b.Source != "":
		p.line("backlog", "more than %s unpublished, estimated %s (%s)", number(b.Count), number(int(b.Estimate)),
			b.Source)
	case b.Capped:
		p.line("backlog", "more than %s unpublished", number(b.Count))
	default:
		p.line("backlog", "%s unpublished", number(b.Count))
	}
	if b.Oldest.IsZero() {
		return
	}
	if age := s.Now.Sub(b.Oldest); age < 0 {
		p.line("oldest", "created_at lies %s in the future", span(-age))
	} else {
		p.line("oldest", "waits for %s, by its created_at", span(age))
	}
}

func (p statusPrinter) relays(s *postgres.Status) {
	if s.Relays == nil {
		p.line("relays", "unknown: the side tables can't be read")
		return
	}
	if rate := perSecond(s.Relays); rate != nil {
		p.line("rate", "%s published", rateText(*rate))
	}
	for _, r := range s.Relays {
		p.group(r)
	}
}

func (p statusPrinter) group(r postgres.Relays) {
	text := ", all with an owner"
	if n := len(r.Free) + len(r.Stray); n > 0 {
		text = fmt.Sprintf(", %d without an owner", n)
	}
	if r.NextLanes != 0 {
		text += fmt.Sprintf(", changing to %d", r.NextLanes)
	}
	p.line("lanes", "%d%s%s", r.Lanes, ofGroup(r), text)
	if len(r.Members) == 0 {
		p.line("relays", "none%s", ofGroup(r))
	}
	for _, m := range r.Members {
		p.line("relay", "%s", p.member(m))
	}
}

func (p statusPrinter) member(m postgres.Member) string {
	state := p.screen.Good(string(m.State))
	if m.State != postgres.MemberAlive {
		state = p.screen.Bad(string(m.State))
	}
	text := fmt.Sprintf("%d %s (%s): %s, %s, beat %s ago", m.ID, term.Plain(m.Name), term.Plain(m.Version), state,
		plural(len(m.Lanes), "lane"), span(m.BeatAge))
	if m.PerSecond != nil && m.State == postgres.MemberAlive {
		text += ", " + rateText(*m.PerSecond)
	}
	if m.Held > 0 {
		text += ", " + p.screen.Warn(held(m.Held))
	}
	if m.Trouble != "" {
		text += ", " + p.screen.Warn("not ready: "+m.Trouble)
	}
	return text
}

func (p statusPrinter) parked(s *postgres.Status) {
	if s.Parked == nil {
		return
	}
	text := "none"
	if n := s.Parked; n.Count > 0 {
		text = p.screen.Warn(atLeast(n.Count, n.Capped, "event", "events"))
	}
	if n := s.Parked.Requested; n > 0 {
		text += fmt.Sprintf(", %s of them to be retried or discarded by a relay", number(n))
	}
	p.line("parked", "%s", text)
	if n := len(s.Pauses); n > 0 {
		p.line("paused", "%s", p.screen.Warn(plural(n, "pause")))
	}
}

// briefly is how long a writer may be open without being worth a line.
const briefly = time.Second

func (p statusPrinter) writers(s *postgres.Status) {
	if s.Writers == nil {
		return
	}
	shown := 0
	for _, w := range s.Writers.Oldest {
		who := fmt.Sprintf("pid %d", w.PID)
		if w.PID == 0 {
			who = fmt.Sprintf("prepared transaction %q", w.Prepared)
		}
		if w.User != "" {
			who += ", user " + term.Plain(w.User)
		}
		if w.Application != "" {
			who += ", application " + term.Plain(w.Application)
		}
		if w.State != "" {
			who += ", " + w.State
		}
		switch age := s.Now.Sub(w.Since); {
		case w.Since.IsZero():
			who += ", since when is hidden from this role"
		case age < briefly:
			continue
		default:
			who = "for " + span(age) + ": " + who
		}
		p.line("writer", "open %s", who)
		shown++
	}
	if more := s.Writers.Open - len(s.Writers.Oldest); more > 0 {
		p.line("writers", "%d more are open", more)
	} else if shown == 0 {
		p.line("writers", "none open for longer than %s", span(briefly))
	}
}

func serverVersion(s postgres.Server) string {
	if s.Version == 0 {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", s.Version/10000, s.Version%10000)
}

// number sets thousands apart.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func rateText(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f events/s", perSecond)
	}
	return number(int(perSecond+0.5)) + " events/s"
}

// span is a duration as people say it, with no more digits than they want.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
