package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onSignals returns a context that ends with the first SIGINT or SIGTERM: stop taking work, finish what is in flight.
// The second one calls exit at once. stop ends the watch, and waits for it.
func onSignals(parent context.Context, exit func(int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for count := 0; ; count++ {
			select {
			case <-over:
				return
			case <-signals:
				if count > 0 {
					exit(exitInterrupted)
					return
				}
				cancel()
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
