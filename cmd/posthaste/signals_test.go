package main

import (
	"syscall"
	"testing"
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
	select {
	case status := <-ended:
		t.Fatalf("the first signal ended the process with %d", status)
	default:
	}
	signal(syscall.SIGINT)
	if status := <-ended; status != exitInterrupted {
		t.Errorf("status %d", status)
	}
}
