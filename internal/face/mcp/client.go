package mcp

import (
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
)

// clientSession is the mcp-go session of Stdio's single client.
type clientSession struct {
	initialized   atomic.Bool
	notifications chan mcp.JSONRPCNotification
}

// newClientSession returns a session that can buffer the notifications that mcp-go sends during one request.
func newClientSession() *clientSession {
	return &clientSession{notifications: make(chan mcp.JSONRPCNotification, 100)}
}

func (c *clientSession) Initialize() { c.initialized.Store(true) }

func (c *clientSession) Initialized() bool { return c.initialized.Load() }

func (c *clientSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }
func (c *clientSession) SessionID() string                                   { return "stdio" }
