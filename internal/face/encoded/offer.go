package encoded

import "context"

// Offer receives the response to a call from a service that responds with Put.
type Offer struct{ response *Response }

type offerKey struct{}

// NewOffer returns a context for a call whose service can respond with Put.
func NewOffer(ctx context.Context) (context.Context, *Offer) {
	o := &Offer{}
	return context.WithValue(ctx, offerKey{}, o), o
}

// OfferOf returns the offer in the context, or nil if there is none.
func OfferOf(ctx context.Context) *Offer {
	o, _ := ctx.Value(offerKey{}).(*Offer)
	return o
}

// Response returns the response from Put. It returns nil if the service responded with a message or failed. Call it after
// the call has ended. The offer may be nil.
func (o *Offer) Response() *Response {
	if o == nil {
		return nil
	}
	return o.response
}

// Put responds to the call if its context has an offer. If it returns false, the service must respond with a message.
func Put(ctx context.Context, r *Response) bool {
	o := OfferOf(ctx)
	if o != nil {
		o.response = r
	}
	return o != nil
}
