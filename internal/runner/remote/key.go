package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// NewSeed returns a new random seed for PrivateKey.
func NewSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	return seed
}

// PrivateKey returns the key that belongs to the seed. Fleet signs its requests to runners with it.
func PrivateKey(seed []byte) (ed25519.PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the seed of the key for runners must have %d bytes, not %d", ed25519.SeedSize, len(seed))
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// FormatPublicKey returns the public key that belongs to the private key, as text for ParsePublicKey.
func FormatPublicKey(key ed25519.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

// ParsePublicKey parses a text from FormatPublicKey. It ignores surrounding space.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("the public key must be %d bytes in base64, as Fleet shows it", ed25519.PublicKeySize)
	}
	return key, nil
}
