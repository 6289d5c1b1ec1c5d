package postgres

import (
	"context"
	"net"
	"time"
)

// silence is how long the other end of a connection may confirm nothing that was sent to it. Its kernel confirms also while a
// statement takes long or waits for a lock. So a connection that a firewall has forgotten, or whose machine is gone, fails
// after that time, and not only after answerLimit or endTimeout.
const silence = 3 * time.Second

// dial connects to the database.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2},
		Control:         limitSilence,
	}
	return d.DialContext(ctx, network, address)
}
