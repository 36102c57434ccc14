"""``python -m torture --seeds 10000``: a campaign in the simulated world."""

from torture.seeds import main

if __name__ == "__main__":  # other processes import the campaign, which they could not from here
    main()
