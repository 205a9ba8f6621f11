"""[garcelon2021local]: optimism and posterior sampling under local trust."""
