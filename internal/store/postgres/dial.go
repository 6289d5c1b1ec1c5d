package postgres

import (
	"context"
	"net"
	"time"
)

// ackTimeout is how long sent data may stay unacknowledged by the other end of a connection. The other end's kernel
// acknowledges data even while a statement takes long or waits for a lock. So if a firewall has forgotten a connection
// or its machine is down, the connection fails after this time, and not only after answerTimeout or endTimeout.
const ackTimeout = 3 * time.Second

// dial connects to the database.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: ackTimeout / 3, Interval: ackTimeout / 3, Count: 2},
		Control:         setAckTimeout,
	}
	return d.DialContext(ctx, network, address)
}
