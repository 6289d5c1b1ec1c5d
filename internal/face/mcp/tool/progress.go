package tool

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// Notify sends a notification to the client of a call. It returns after the transport has accepted the notification. So
// nothing that is sent later, above all the call's result, can overtake the notification or cause it to be dropped. An
// error means that the client has disconnected.
//
// mcp-go's own notifications pass through a channel, from which a second goroutine writes them into the response. A
// notification is lost if the goroutine still holds it when the handler returns, or if it does not fit into the
// channel.
type Notify func(mcp.JSONRPCNotification) error

type notifyKey struct{}

// WithNotify returns a context whose calls send their progress through n.
func WithNotify(ctx context.Context, n Notify) context.Context {
	return context.WithValue(ctx, notifyKey{}, n)
}

// DefaultMaxSilence is how long a call may send nothing by default. Clients give up a call that sends nothing for a minute.
const DefaultMaxSilence = 8 * time.Second

type maxSilenceKey struct{}

// WithMaxSilence returns a context whose calls send a notification whenever they have sent nothing for d.
func WithMaxSilence(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, maxSilenceKey{}, d)
}

func maxSilence(ctx context.Context) time.Duration {
	if d, _ := ctx.Value(maxSilenceKey{}).(time.Duration); d > 0 {
		return d
	}
	return DefaultMaxSilence
}

// progress sends the progress of one call. A nil progress sends nothing.
type progress struct {
	token      mcp.ProgressToken
	notify     Notify
	maxSilence time.Duration // how long the call may send nothing

	mu   sync.Mutex
	sent int
	last time.Time // when something was last sent, or when the call began
}

type progressKey struct{}

// newProgress returns the progress of a call, or nil if the client did not request progress or cannot receive it.
func newProgress(ctx context.Context, r mcp.CallToolRequest) *progress {
	notify, _ := ctx.Value(notifyKey{}).(Notify)
	if notify == nil || r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
		return nil
	}
	return &progress{token: r.Params.Meta.ProgressToken, notify: notify, maxSilence: maxSilence(ctx), last: time.Now()}
}

// progressOf returns the progress of the context's call; nil if there is none.
func progressOf(ctx context.Context) *progress {
	p, _ := ctx.Value(progressKey{}).(*progress)
	return p
}

// send sends each text as one progress notification. The progress value counts the texts; there is no known total.
func (p *progress) send(texts []string) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range texts {
		p.sent++
		p.last = time.Now()
		if err := p.notify(mcp.JSONRPCNotification{
			JSONRPC: mcp.JSONRPC_VERSION,
			Notification: mcp.Notification{
				Method: "notifications/progress",
				Params: mcp.NotificationParams{AdditionalFields: map[string]any{
					"progressToken": p.token, "progress": p.sent, "message": text,
				}},
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// sentCount returns how many texts were sent.
func (p *progress) sentCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// keepAlive sends a notification whenever the call has sent nothing for p.maxSilence, until stop is called or the client has disconnected.
func (p *progress) keepAlive() (stop func()) {
	if p == nil {
		return func() {}
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	started := time.Now()
	go func() {
		defer close(done)
		timer := time.NewTimer(p.maxSilence)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-stopped:
				return
			}
			if left := p.remainingSilence(); left > 0 {
				timer.Reset(left)
				continue
			}
			if p.send([]string{"at work for " + time.Since(started).Round(time.Second).String()}) != nil {
				return
			}
			timer.Reset(p.maxSilence)
		}
	}()
	return func() { close(stopped); <-done }
}

// remainingSilence returns how long the call may still send nothing.
func (p *progress) remainingSilence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxSilence - time.Since(p.last)
}

// EventText returns the text of an event, or the words of its type, kind, if the text is empty.
func EventText(text, kind string) string {
	return cmp.Or(text, strings.ReplaceAll(kind, "_", " "))
}

// JSON returns the message as JSON, or the name of its type if it cannot be encoded. Tools use it for the progress of streams whose
// messages have no text field.
func JSON(m proto.Message) string {
	b, err := wire.Marshal(m)
	if err != nil {
		return string(m.ProtoReflect().Descriptor().Name())
	}
	return string(b)
}
