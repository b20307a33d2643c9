"""The client's options: frozen, typed, checked when they are made, named after Kafka's own.

| file | subject |
| --- | --- |
| client.py | `ClientConfig`: every option, its default, its rule and its description |
| keywords.py | the same as keyword arguments, for type checkers |
| options.py | what is known of one option |
| rules.py | what one value may be, given as a Python value or as text |
| addresses.py | bootstrap servers |
| agreement.py | what options may be together |
| names.py | names that are no option: of later features, of Java's, of other clients, misspelt |
| java.py | Kafka's dotted names and texts, and what the Java client adjusts by itself |
| properties.py | the syntax of a .properties file |
| errors.py | the messages of a ConfigurationError |

Not here: serializers, partitioners and hooks, which are objects and not settings; the configs of brokers and
topics (`broker.configs`).

Invariant: a ClientConfig that exists is valid. Nothing that a user wrote is ever dropped without a word.
"""

from ottla.config.addresses import Address
from ottla.config.client import ClientConfig
from ottla.config.keywords import ClientOptions
from ottla.config.names import NOT_SUPPORTED_YET
from ottla.config.options import Option

__all__ = ["NOT_SUPPORTED_YET", "Address", "ClientConfig", "ClientOptions", "Option"]
