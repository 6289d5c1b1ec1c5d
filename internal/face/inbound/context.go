package inbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

type connKey struct{}

// WithConn is the ConnContext of an http.Server whose listener is a Listener, with or without TLS.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if conn, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, conn)
	}
	return ctx
}

// ConnFrom returns the connection of the HTTP request or gRPC call that the context belongs to, or nil if the call did not
// come over a connection.
func ConnFrom(ctx context.Context) *Conn {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c
	}
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.AuthInfo.(authInfo); ok {
			return a.conn
		}
	}
	return nil
}

// RemoteAddr returns the remote address of the call's connection, or "" if the call did not come over a connection.
func RemoteAddr(ctx context.Context) string {
	if c := ConnFrom(ctx); c != nil {
		return c.RemoteAddr().String()
	}
	return ""
}

// Network returns the network from which the call comes: its address, or for IPv6 the /64 of its address. It returns the zero
// value if the call did not come over a connection.
func Network(ctx context.Context) netip.Prefix {
	if c := ConnFrom(ctx); c != nil {
		return c.network
	}
	return netip.Prefix{}
}

// Credentials returns the transport credentials of a gRPC server whose listener is a Listener. They let ConnFrom find the
// connection of a call. If keys is nil, connections are not encrypted.
func Credentials(keys *Keys) credentials.TransportCredentials {
	if keys == nil {
		return connCredentials{insecure.NewCredentials()}
	}
	return connCredentials{credentials.NewTLS(keys.Config())}
}

type connCredentials struct {
	credentials.TransportCredentials
}

func (t connCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, _ := c.(*Conn)
	securedConn, info, err := t.TransportCredentials.ServerHandshake(c)
	return securedConn, authInfo{info, conn}, err
}

func (t connCredentials) Clone() credentials.TransportCredentials {
	return connCredentials{t.TransportCredentials.Clone()}
}

// authInfo is the result of the handshake, with the connection.
type authInfo struct {
	credentials.AuthInfo
	conn *Conn
}
