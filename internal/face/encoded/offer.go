package encoded

import "context"

// Offer receives the response to a call from a service that calls Respond.
type Offer struct{ response *Response }

type offerKey struct{}

// NewOffer returns a context for a call whose service can call Respond.
func NewOffer(ctx context.Context) (context.Context, *Offer) {
	o := &Offer{}
	return context.WithValue(ctx, offerKey{}, o), o
}

// OfferOf returns the offer in the context, or nil if there is none.
func OfferOf(ctx context.Context) *Offer {
	o, _ := ctx.Value(offerKey{}).(*Offer)
	return o
}

// Response returns the response that the service passed to Respond. It returns nil if the service returned a message or failed.
// Call it after the call has ended. The offer may be nil.
func (o *Offer) Response() *Response {
	if o == nil {
		return nil
	}
	return o.response
}

// Respond responds to the call with r if its context has an offer. Then it returns true, and the message that the service returns is
// ignored. Otherwise it returns false, and the service must return the whole message.
func Respond(ctx context.Context, r *Response) bool {
	o := OfferOf(ctx)
	if o != nil {
		o.response = r
	}
	return o != nil
}
