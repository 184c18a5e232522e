package main

import (
	"syscall"
	"testing"
	"time"
)

// Signals come to the whole process, so this test is not parallel.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	ended := make(chan int, 1)
	ctx, stop := onSignals(t.Context(), func(status int) { ended <- status })
	defer stop()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGTERM)
	<-ctx.Done()
	begun := time.Now()
	again := time.NewTicker(sameSignal / 10)
	defer again.Stop()
	for {
		select {
		case status := <-ended:
			if status != exitInterrupted || time.Since(begun) < sameSignal*9/10 {
				t.Errorf("status %d after %v; want %d, and not for the same wish", status, time.Since(begun),
					exitInterrupted)
			}
			return
		case <-again.C:
			signal(syscall.SIGINT)
		}
	}
}
