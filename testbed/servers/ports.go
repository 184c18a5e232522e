package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below the ranges from which operating systems pick the local end of outgoing connections
// (Linux 32768 and up, others 49152 and up): a server that was killed finds its port free when it starts again.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts returns n different ports on which nobody listens on 127.0.0.1 now.
func freePorts(n int) ([]int, error) {
	var ports []int
	var held []net.Listener // until all are chosen, so that none is chosen twice
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports: all tried from %d to %d are taken", n, lowestPort, highestPort)
}
