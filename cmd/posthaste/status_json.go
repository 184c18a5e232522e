package main

import (
	"time"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// The shape of status --json. Its names are promised: the help lists them.
type (
	jsonStatus struct {
		Time               time.Time        `json:"time"`
		Database           string           `json:"database"`
		Server             string           `json:"server"`
		Standby            bool             `json:"standby"`
		Outbox             string           `json:"outbox"`
		Backlog            *jsonBacklog     `json:"backlog"`
		BacklogUnknown     *string          `json:"backlog_unknown"`
		PublishedPerSecond *float64         `json:"published_per_second"`
		Groups             []jsonGroup      `json:"groups"`
		Relays             []jsonRelay      `json:"relays"`
		Parked             *jsonParkedCount `json:"parked"`
		Pauses             jsonPauses       `json:"pauses"`
		Writers            *jsonWriters     `json:"writers"`
		Problems           []jsonProblem    `json:"problems"`
		Warnings           []jsonProblem    `json:"warnings"`
		Attention          []string         `json:"attention"`
	}
	jsonBacklog struct {
		Count            int        `json:"count"`
		Capped           bool       `json:"capped"`
		Estimate         *int64     `json:"estimate"`
		EstimateSource   *string    `json:"estimate_source"`
		LowestID         *int64     `json:"lowest_id"`
		OldestCreatedAt  *time.Time `json:"oldest_created_at"`
		OldestAgeSeconds *float64   `json:"oldest_age_seconds"`
	}
	jsonGroup struct {
		Name            string          `json:"name"`
		Topics          []relay.Pattern `json:"topics"`
		LanesTotal      int             `json:"lanes_total"`
		LanesFree       int             `json:"lanes_free"`
		LanesChangingTo *int            `json:"lanes_changing_to"`
		RelaysAlive     int             `json:"relays_alive"`
	}
	jsonRelay struct {
		Group              string    `json:"group"`
		ID                 int       `json:"id"`
		Name               string    `json:"name"`
		Version            string    `json:"version"`
		State              string    `json:"state"`
		Lanes              []int     `json:"lanes"`
		JoinedAt           time.Time `json:"joined_at"`
		BeatAgeSeconds     float64   `json:"beat_age_seconds"`
		Published          int64     `json:"published"`
		PublishedPerSecond *float64  `json:"published_per_second"`
		Held               int       `json:"held"`
		Trouble            *string   `json:"trouble"`
	}
	jsonParkedCount struct {
		Count     int  `json:"count"`
		Capped    bool `json:"capped"`
		Requested int  `json:"requested"`
	}
	jsonPauses struct {
		Count  int         `json:"count"`
		Oldest []jsonPause `json:"oldest"`
	}
	jsonWriters struct {
		Open   int          `json:"open"`
		Oldest []jsonWriter `json:"oldest"`
	}
	jsonWriter struct {
		PID         *int     `json:"pid"`
		Prepared    *string  `json:"prepared"`
		User        string   `json:"user"`
		Application string   `json:"application"`
		State       string   `json:"state"`
		AgeSeconds  *float64 `json:"age_seconds"`
	}
	jsonProblem struct {
		Cause string `json:"cause"`
		Fix   string `json:"fix"`
	}
)

func statusJSON(s *postgres.Status, attention []string) jsonStatus {
	j := jsonStatus{
		Time:               s.Now.UTC(),
		Database:           s.Outbox.Server.Database,
		Server:             serverVersion(s.Outbox.Server),
		Standby:            s.Standby,
		Outbox:             s.Outbox.Names.Table.String(),
		BacklogUnknown:     orNull(s.Uncounted),
		PublishedPerSecond: perSecond(s.Relays),
		Groups:             []jsonGroup{},
		Relays:             []jsonRelay{},
		Problems:           problemsJSON(s.Problems),
		Warnings:           problemsJSON(s.Outbox.Warnings),
		Attention:          append([]string{}, attention...),
	}
	if b := s.Backlog; b != nil {
		j.Backlog = &jsonBacklog{Count: b.Count, Capped: b.Capped, Estimate: orNull(b.Estimate),
			EstimateSource: orNull(b.Source), LowestID: orNull(b.LowestID)}
		if !b.Oldest.IsZero() {
			created, age := b.Oldest.UTC(), s.Now.Sub(b.Oldest).Seconds()
			j.Backlog.OldestCreatedAt, j.Backlog.OldestAgeSeconds = &created, &age
		}
	}
	for _, r := range s.Relays {
		j.Groups = append(j.Groups, jsonGroup{r.Group, append([]relay.Pattern{}, r.Topics...), r.Lanes,
			len(r.Free) + len(r.Stray), orNull(r.NextLanes), r.Alive()})
		for _, m := range r.Members {
			j.Relays = append(j.Relays, jsonRelay{Group: r.Group, ID: m.ID, Name: m.Name, Version: m.Version,
				State: string(m.State), Lanes: append([]int{}, m.Lanes...), JoinedAt: m.JoinedAt.UTC(),
				BeatAgeSeconds: m.BeatAge.Seconds(), Published: m.Published, PublishedPerSecond: m.PerSecond,
				Held: m.Held, Trouble: orNull(m.Trouble)})
		}
	}
	if p := s.Parked; p != nil {
		j.Parked = &jsonParkedCount{p.Count, p.Capped, p.Requested}
	}
	j.Pauses = jsonPauses{len(s.Pauses), pausesJSON(s.Pauses[:min(len(s.Pauses), 5)])}
	if w := s.Writers; w != nil {
		j.Writers = &jsonWriters{Open: w.Open, Oldest: []jsonWriter{}}
		for _, x := range w.Oldest {
			one := jsonWriter{PID: orNull(x.PID), Prepared: orNull(x.Prepared), User: x.User,
				Application: x.Application, State: x.State}
			if !x.Since.IsZero() {
				age := s.Now.Sub(x.Since).Seconds()
				one.AgeSeconds = &age
			}
			j.Writers.Oldest = append(j.Writers.Oldest, one)
		}
	}
	return j
}

func problemsJSON(list []postgres.Problem) []jsonProblem {
	out := []jsonProblem{}
	for _, p := range list {
		out = append(out, jsonProblem{p.Cause, p.Fix})
	}
	return out
}

// orNull makes null of a zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// perSecond adds up what the living relays publish; nil while none of them has told.
func perSecond(groups []postgres.Relays) *float64 {
	var sum *float64
	for _, r := range groups {
		for _, m := range r.Members {
			if m.State == postgres.MemberAlive && m.PerSecond != nil {
				if sum == nil {
					sum = new(float64)
				}
				*sum += *m.PerSecond
			}
		}
	}
	return sum
}
