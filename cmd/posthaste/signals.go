package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how close two signals may come and still be one wish to stop: a terminal, timeout(1) and some
// supervisors signal a process and then its group.
const sameSignal = 250 * time.Millisecond

// onSignals returns a context that ends with the first SIGINT or SIGTERM: stop taking work, finish what is in flight.
// A later one calls exit at once. stop ends the watch, and waits for it.
func onSignals(parent context.Context, exit func(int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		var first time.Time
		for {
			select {
			case <-over:
				return
			case <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel()
				case time.Since(first) > sameSignal:
					exit(exitInterrupted)
					return
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		<-watched
		cancel()
	}
}
