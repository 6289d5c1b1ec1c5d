package remote

import (
	"context"
	"time"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// session is the result of a handshake.
type session struct {
	options   []string      // options of tasks that the runner supports
	features  []string      // features of the runner, such as landingFeature
	instance  string        // identifies the runner's process
	clockSkew time.Duration // how far the runner's clock is ahead of Fleet's clock
}

// handshake returns the result of the last handshake. It makes a handshake if there was none.
func (c *Client) handshake(ctx context.Context, agentUID string) (*session, error) {
	s := c.lastSession()
	if s != nil {
		return s, nil
	}
	re, err := c.rpc.Handshake(context.WithValue(ctx, requestAgentKey{}, nil), connect.NewRequest(&runnerv1.HandshakeRequest{Version: c.config.Version}))
	if err != nil {
		return nil, err
	}
	m := re.Msg
	if m.GetProtocol() < OldestProtocol || m.GetOldestProtocol() > Protocol {
		advice := "restart its workspace with a newer fleet-runner"
		if m.GetOldestProtocol() > Protocol {
			advice = "upgrade Fleet, or restart its workspace with an older fleet-runner"
		}
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the runner of the agent (version %q) supports versions %d to %d of the protocol, but Fleet supports versions %d to %d: %s",
			m.GetVersion(), m.GetOldestProtocol(), m.GetProtocol(), OldestProtocol, Protocol, advice).With("agent_uid", agentUID)
	}
	s = &session{options: m.GetTaskOptions(), features: m.GetFeatures(), instance: m.GetInstance(), clockSkew: m.GetNow().AsTime().Sub(c.config.Now())}
	if s.clockSkew.Abs() > maxSkew {
		// Otherwise, a program that pretends to be the runner could collect requests that stay valid for a long time.
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the clock of the agent's workspace is off by %s: correct it", s.clockSkew.Round(time.Second))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = s
	return s, nil
}

// checkSession calls check with the session. If check refuses the result of an earlier handshake, checkSession makes a new handshake and
// checks again, because the runner may have been upgraded since.
func (c *Client) checkSession(ctx context.Context, agentUID string, check func(*session) error) error {
	previous := c.lastSession()
	s, err := c.handshake(ctx, agentUID)
	if err != nil {
		return err
	}
	if err = check(s); err == nil || s != previous {
		return err
	}
	c.forgetSession()
	if s, err = c.handshake(ctx, agentUID); err != nil {
		return err
	}
	return check(s)
}

// CheckOptions returns an error if the last handshake shows that the runner does not support one of the options. It makes no
// request, and returns nil if there was no handshake. After an error it forgets the handshake, because the runner may have been
// upgraded since. Then the next Dispatch makes a new one.
func (c *Client) CheckOptions(o fleet.TaskOptions) error {
	s := c.lastSession()
	if s == nil {
		return nil
	}
	err := s.checkOptions(o)
	if err != nil {
		c.forgetSession()
	}
	return err
}

func (s *session) checkOptions(o fleet.TaskOptions) error {
	return o.CheckSupported(s.options, "the runner of the agent", nil)
}

// lastSession returns the result of the last handshake, or nil if there was none.
func (c *Client) lastSession() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *Client) forgetSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}
