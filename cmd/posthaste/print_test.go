package main

import (
	"testing"
	"time"
)

func TestWhatPeopleRead(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		number(0):                                "0",
		number(999):                              "999",
		number(-1234567):                         "-1,234,567",
		number(100000):                           "100,000",
		span(400 * time.Millisecond):             "0.4 s",
		span(90 * time.Second):                   "90 s",
		span(3*time.Hour + 20*time.Second):       "3h0m",
		span(5 * 24 * time.Hour):                 "5 days",
		rateText(0.25):                           "0.2 events/s",
		rateText(12345.6):                        "12,346 events/s",
		ranges(nil):                              "none",
		ranges([]int{3}):                         "3",
		ranges([]int{0, 1, 2, 3, 7, 9, 10}):      "0-3,7,9-10",
		"moment " + must(parseMoment("15m")):     "moment 15m0s",
		"moment " + must(parseMoment("-15m")):    "moment error",
		"moment " + must(parseMoment("2026-01")): "moment error",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func must(m moment, err error) string {
	if err != nil {
		return "error"
	}
	return m.ago.String()
}
