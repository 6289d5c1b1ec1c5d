package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// firstConnectTime is how long to retry a server that was never reached, because the server may just be starting.
const firstConnectTime = 700 * time.Millisecond

// attempts makes one call, and repeats it when necessary. If the call has a stream of responses, it can be repeated after any of
// them.
type attempts struct {
	*conn
	method         string
	req            any
	canRepeat      bool
	maxOutage      time.Duration // how long the server may be unreachable; negative means forever
	silent         bool          // does not report outages
	isEndless      bool          // the stream has no end of its own, so it is continued even if the server ends it with an error
	started        time.Time     // of the last attempt
	responded      bool          // an attempt has had a response
	outageReported bool          // onOutage was called, and onReconnect was not called after it
	backoff        retryBackoff
}

// newAttempts returns the attempts to make a call with the request. It sets the request_id if the request has the field and no value in it.
func (c *conn) newAttempts(method string, req any) *attempts {
	return &attempts{conn: c, method: method, req: req, canRepeat: setRequestID(method, req), maxOutage: c.reconnectTime}
}

// recordResponse records that the server answers. It ends an outage.
func (a *attempts) recordResponse() {
	a.reached.Store(true)
	if a.outageReported {
		a.onReconnect()
	}
	a.responded, a.outageReported, a.backoff = true, false, retryBackoff{}
}

// errStreamEnds means that the server ends a stream that should continue.
var errStreamEnds = status.Error(codes.Unavailable, "the server keeps ending the stream")

// waitForRetry waits before a call that failed with err is made again. It returns nil at once if the call only needs a new token. It returns
// an error if the call must not be repeated, or if the time for retries is over. If ctx is done during an outage, the error is the cause of
// that. sent says that the server may have received the call.
func (a *attempts) waitForRetry(ctx context.Context, sent bool, err error) error {
	if sent {
		a.reached.Store(true)
	}
	switch {
	case ctx.Err() != nil && isBroken(err):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return err
	case a.renewsTokens && a.canRepeat && isTokenExpiry(err, a.started):
		return nil
	case !isBroken(err) && (!a.isEndless || !a.responded || !isTransient(err)):
		return err
	case sent && !a.canRepeat:
		return Fail(ExitUnavailable, "check its effect before you try again", "the connection broke, and the server may have carried out the request")
	}
	limit := a.maxOutage
	if !a.reached.Load() {
		limit = firstConnectTime
	} else if !a.outageReported && !a.silent && !errors.Is(err, errStreamEnds) {
		a.outageReported = true
		a.onOutage()
	}
	switch {
	case a.backoff.wait(ctx, limit):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// isTokenExpiry reports whether a call probably failed because its token expired during the call. started is the time when
// the call began. A token that was already invalid makes the call fail at once, so isTokenExpiry returns false if the call failed within a
// second.
func isTokenExpiry(err error, started time.Time) bool {
	return status.Code(err) == codes.Unauthenticated && reasonOf(err) != "" && time.Since(started) > time.Second
}

// isBroken reports whether a call failed in transport, not by a decision of Fleet. A server that shuts down cancels its calls.
func isBroken(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.Unavailable && reasonOf(err) == ""
}

// isTransient reports whether a stream of events may continue after the error: a server ends streams when it shuts down and when the
// reader is too slow, and transport errors such as a reset stream have other codes.
func isTransient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.ResourceExhausted:
		return true
	case codes.Internal, codes.Unknown:
		return reasonOf(err) == ""
	}
	return false
}

// receiver returns a function that makes the call and waits for the next response of its stream. After the last response, the function
// returns io.EOF; if it is used again, it makes the call again. If the connection breaks, the function repeats the call if that is safe.
//
// If onResponse is nil, the repeated call must have the same responses: the function skips those that it has already returned. Otherwise
// the function calls onResponse with each response and skips none. onResponse must change the request so that a repeated call continues
// after that response.
func (a *attempts) receiver(ctx context.Context, responseType protoreflect.MessageType, onResponse func(proto.Message)) func() (proto.Message, error) {
	var stream grpc.ClientStream
	receivedCount, returnedCount := 0, 0
	next := func() (m proto.Message, err error) {
		if stream == nil {
			receivedCount, a.started = 0, time.Now()
			if stream, err = a.open(ctx); err != nil {
				return nil, err
			}
		}
		m = responseType.New().Interface()
		return m, stream.RecvMsg(m)
	}
	return func() (proto.Message, error) {
		for {
			m, err := next()
			switch {
			case err == nil:
				a.recordResponse()
				if onResponse != nil {
					onResponse(m)
					return m, nil
				}
				if receivedCount++; receivedCount > returnedCount {
					returnedCount = receivedCount
					return m, nil
				}
				continue
			case isEnd(err):
				stream = nil
				return nil, err
			}
			sent := stream != nil // an open stream implies a connection
			stream = nil
			if err := a.waitForRetry(ctx, sent, err); err != nil {
				return nil, err
			}
		}
	}
}

// open starts the stream and sends the request.
func (a *attempts) open(ctx context.Context) (grpc.ClientStream, error) {
	s, err := a.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, a.method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(a.req); err != nil && !isEnd(err) { // RecvMsg returns why the stream has ended
		return s, err
	}
	return s, s.CloseSend()
}

// isEnd reports whether a stream has ended normally.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }
